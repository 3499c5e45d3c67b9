"""From words on the command line to an estimator."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from marginout import noise as noises
from marginout.cli.errors import UsageError
from marginout.estimators.cv import DropoutLogisticRegressionCV, DropoutSVCCV, DropoutSVRCV
from marginout.estimators.latent import LatentDropoutLogisticRegression, LatentDropoutSVC, LatentDropoutSVR
from marginout.estimators.logistic import DropoutLogisticRegression
from marginout.estimators.mcf import MCFClassifier, MCFRegressor
from marginout.estimators.svm import DropoutSVC, DropoutSVR

#: Each kind of noise, and the values that --cv tries where none is given.
RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
VARIANCES = (0.0, 0.001, 0.01, 0.1, 1.0)
NOISES: dict[str, tuple[Any, tuple[float, ...]]] = {
    "dropout": (noises.Dropout, RATES),
    "deletion": (noises.Deletion, RATES),
    "gaussian": (noises.Gaussian, VARIANCES),
    "laplace": (noises.Laplace, VARIANCES),
    "bitswap": (noises.BitSwap, (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)),
}
#: For each --model: the estimators for classification and regression, alone and with --cv.
FACTORIES: dict[str, dict[tuple[str, bool], Any]] = {
    "svm": {
        ("classification", False): DropoutSVC,
        ("classification", True): DropoutSVCCV,
        ("regression", False): DropoutSVR,
        ("regression", True): DropoutSVRCV,
    },
    "logistic": {
        ("classification", False): DropoutLogisticRegression,
        ("classification", True): DropoutLogisticRegressionCV,
    },
    "mcf": {("classification", False): MCFClassifier, ("regression", False): MCFRegressor},
    "latent-svm": {("classification", False): LatentDropoutSVC, ("regression", False): LatentDropoutSVR},
    "latent-logistic": {("classification", False): LatentDropoutLogisticRegression},
}


def parse_noise(text: str | None, cv: bool) -> list[Any]:
    """The noise models that a text names: RATE, KIND, KIND:VALUE, or several values.

    >>> parse_noise("deletion:0.5", cv=False)
    [Deletion(rate=0.5)]
    """
    if text is None:
        text = "dropout" if cv else "0.5"
    kind, colon, values = text.strip().lower().partition(":")
    if not colon and kind not in (*NOISES, "poisson"):
        kind, values = "dropout", kind
    if kind == "poisson" and not values:
        return [noises.Poisson()]
    if kind not in NOISES:
        raise UsageError(f"--noise {text!r}: the kinds are {', '.join(NOISES)} (KIND:VALUE) and poisson")
    make, grid = NOISES[kind]
    try:
        found = [make(float(value)) for value in values.split(",")] if values else [make(v) for v in grid]
    except ValueError as error:
        raise UsageError(f"--noise {text!r}: {error} (as in --noise deletion:0.5)") from error
    if not cv and len(found) > 1:
        raise UsageError(
            f"--noise {text!r} is several noises: add --cv to choose among them, or name one value"
        )
    return found


def check_model(arguments: Namespace) -> None:
    """Refuse arguments that are wrong whatever the data are."""
    name, cv = arguments.model, arguments.cv
    parse_noise(arguments.noise, cv)
    if cv and ("classification", True) not in FACTORIES[name]:
        raise UsageError(f"--cv does not go with --model {name}: leave it out, or choose svm or logistic")
    if name == "mcf" and arguments.expectation != "bound":
        raise UsageError(
            "--expectation does not go with --model mcf, whose expectations are exact: leave it out"
        )
    if not cv and arguments.C is not None and len(arguments.C) > 1:
        raise UsageError("--C is several values: add --cv to choose among them, or name one")


def make_model(arguments: Namespace, task: str) -> Any:
    """The estimator that the arguments ask for."""
    name, cv = arguments.model, arguments.cv
    factories = FACTORIES[name]
    if (task, cv) not in factories:
        raise UsageError(f"--model {name} does not do {task}: choose --model svm, or set --task")
    found = parse_noise(arguments.noise, cv)
    options: dict[str, Any] = {}
    if name != "mcf":
        options["expectation"] = arguments.expectation
    if arguments.balanced:
        if task == "regression":
            raise UsageError("--balanced needs classes, but the task is regression: leave it out")
        options["class_weight"] = "balanced"
    if cv:
        options["cv"] = arguments.folds
        options["noises"] = found
        if arguments.C is not None:
            options["Cs"] = arguments.C
    else:
        options["noise"] = found[0]
        options["C"] = arguments.C[0] if arguments.C else 1.0
    options |= {each: getattr(arguments, each) for each in ("tol", "max_iter") if getattr(arguments, each)}
    if arguments.epsilon is not None:
        if task != "regression" or name == "mcf":
            raise UsageError("--epsilon is for regression with --model svm or latent-svm: leave it out")
        options["epsilon"] = arguments.epsilon
    if arguments.missing == "deleted":
        options["missing"] = "deleted"
    if name.startswith("latent"):
        options.update(n_hidden=arguments.hidden, random_state=arguments.seed)
    return factories[task, cv](**options)


def delete_groups(model: Any, groups: Any) -> None:
    """Have the noise of a model that deletes features delete whole groups of them."""
    kinds = {noises.Dropout: noises.GroupDropout, noises.Deletion: noises.GroupDeletion}

    def grouped(noise: Any) -> Any:
        return kinds[type(noise)](groups, noise.rate) if type(noise) in kinds else noise

    if hasattr(model, "noises"):
        model.set_params(noises=[grouped(noise) for noise in model.noises])
    else:
        model.set_params(noise=grouped(model.noise))
