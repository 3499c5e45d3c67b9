"""Write REPORT.md and its figures from the result files alone."""

from __future__ import annotations

import re
from pathlib import Path

from reproduction import figures
from reproduction.cells import Experiment, Result, Store
from reproduction.experiments import NAMES, load
from reproduction.runner import duration
from reproduction.writing import Check, Results, Section, table

HEAD = """# The paper, run again

N. Chen, J. Zhu, J. Chen, T. Chen, *Dropout Training for SVMs with Data Augmentation*, says that support
vector machines and logistic regression become better when they are trained as if on infinitely many copies
of the data from which features have been deleted at random, and gives an algorithm that needs no copies.
Here every table and figure of its experiments is run again on real data: what it claims, in our words; how
it was tried; our numbers; and whether the claim holds.

In short: a *rate* is the probability that a feature is deleted in training; rate 0 is the plain model.
*Dropout-SVM* and *Dropout-LR* are the paper's methods, `DropoutSVC` and `DropoutLogisticRegression` here.
*MCF-Logistic* and *MCF-Quadratic* are those of van der Maaten et al. (2013), which it compares with. Errors
are shares of the test examples that are misclassified. The weight of the loss, *C*, is chosen from a grid;
where the best value is the outermost one, the grid goes on by up to four steps (not in Figure 6). A claim
is judged by a rule that is written beside it, and “holds in part” if some of its parts do. Test errors have
a standard error: about 0.005 for the Amazon and Reuters test sets, 0.008 for Amazon with 20,000 features,
0.003 for MNIST, 0.0045 for CIFAR-10; smaller differences mean little. That dropout lowers an error, or that
one method errs less than another at the chosen rates, is “not decided” where the difference is positive but
smaller than the standard error. (This last rule was added after the results; it can only take a “holds”
away.)

This page is written by `python -m reproduction report` from the files in `reproduction/results`, which hold
settings, seeds, versions and times. `reproduction/README.md` says where the data come from and how to run it.
"""


def write(store: Store, folder: Path) -> None:
    """Write FOLDER/REPORT.md and FOLDER/figures/*.svg."""
    chapters, summary = [], []
    for name in NAMES:
        experiment = load(name)
        results = Results.of(experiment, store)
        section = experiment.section(results)
        if not results.finished():
            section.figures = {}
        for file, figure in section.figures.items():
            figures.save(figure, folder / "figures" / f"{file}.svg")
        chapters.append(chapter(experiment, results, section))
        summary.append(
            [f"[{experiment.where}](#{anchor(experiment)})", experiment.title, f"**{section.verdict}**"]
        )
    head = ["in the paper", "experiment", "verdict"]
    text = "\n\n".join([HEAD + "\n" + table(head, summary), *chapters]) + "\n"
    partial = folder / "REPORT.md.partial"
    partial.write_text(text, encoding="utf-8")
    partial.replace(folder / "REPORT.md")
    print(f"REPORT.md: {len(chapters)} experiments")


def chapter(experiment: Experiment, results: Results, section: Section) -> str:
    parts = [
        f"## {heading(experiment)}",
        f"**The claim.** {section.claim}",
        f"**How.** {section.protocol}",
        f"**Verdict: {section.verdict}.**\n\n" + "\n".join(map(judged, section.checks)),
        *(f"![{experiment.title}](figures/{file}.svg)" for file in section.figures),
        *section.tables,
        *section.remarks,
        f"*{state(experiment, results)}*",
    ]
    return "\n\n".join(parts)


def heading(experiment: Experiment) -> str:
    return f"{experiment.where}: {experiment.title}"


def anchor(experiment: Experiment) -> str:
    """The anchor of the heading, as GitHub and Sphinx make it."""
    return re.sub(r"[^a-z0-9 -]", "", heading(experiment).lower()).replace(" ", "-")


def judged(check: Check) -> str:
    numbers = f" {check.numbers[0].upper()}{check.numbers[1:]}." if check.holds is not None else ""
    return f"- {check.claim} **{check.word[0].upper()}{check.word[1:]}.**{numbers}"


def state(experiment: Experiment, results: Results) -> str:
    """Number of finished cells, their time and versions, and the command that runs the rest."""
    done: list[Result] = [record for _, record in results.cells if record is not None]
    words = f"{len(done)} of {len(results.cells)} cells run"
    if done:
        versions = sorted({f"marginout {record['versions']['marginout']}" for record in done})
        words += f", {duration(sum(record['seconds'] for record in done))} in all, {', '.join(versions)}"
        edges = sum(bool(record["result"].get("C_at_edge")) for record in done)
        words += f"; C at the end of its widened grid in {edges} of them" if edges else ""
    return words + (
        f". The rest: `python -m reproduction run {experiment.name}`." if results.missing else "."
    )
