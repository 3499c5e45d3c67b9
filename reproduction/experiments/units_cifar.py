"""Figure 8: responses of the hidden units of an "airplane against the rest" model on CIFAR-10."""

from __future__ import annotations

from reproduction import images
from reproduction.cells import Experiment, Result, Settings
from reproduction.experiments.cifar import FULL, GROW, LATENT_CS, SMALL, WORDS
from reproduction.protocol import LATENT_SVM
from reproduction.units import fitted_units, judge, portraits
from reproduction.writing import Results, Section


def cells(quick: bool) -> list[Settings]:
    fixed = {"model": LATENT_SVM, "class": 0, "rate": 0.3, "folds": 1, "each": 3, "images": 5}
    if quick:
        tiny = {"K": 4, "Cs": [0.1], "rows": 200, "words": 16, "patches": 2000, "seed": 0}
        grown = {"search_rows": 150, "parts": 2, "max_iter": 20, "finish": 10}
        return [{"data": SMALL, **fixed, **tiny, **grown}]
    return [{"data": FULL, **fixed, "K": 40, "Cs": list(LATENT_CS), "rows": None, **WORDS, **GROW}]


def measure(settings: Settings) -> Result:
    learning = (settings["words"], settings["patches"], settings["seed"])
    problem = images.visual_words(settings["data"], settings["rows"], *learning)
    pictures = images.load(settings["data"], settings["rows"]).X_test
    return fitted_units(problem, settings["class"], pictures, settings)


def section(results: Results) -> Section:
    return Section(
        claim="Units with positive weights respond to airplanes, those with negative weights to "
        "automobiles, trucks, ships and cats, and those with weights near zero to many classes.",
        protocol="Dropout-LatentSVM with 40 units on the visual words of Tables 3 and 4, “airplane against "
        "the rest”, rate 0.3, fitted as there, C chosen for it with as many images. Of the test images: the "
        "five to which a unit responds most, and its mean response to each class.",
        checks=judge(results, 0, images.CLASSES),
        figures=portraits("units_cifar", results, images.CLASSES),
    )


EXPERIMENT = Experiment("units_cifar", "Figure 8", "Hidden units of photographs", cells, measure, section)
