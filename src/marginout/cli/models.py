"""Make the estimator that the arguments ask for, and describe an estimator in words."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from marginout import noise as noises
from marginout.cli.errors import UsageError
from marginout.estimators.cv import DropoutLogisticRegressionCV, DropoutSVCCV, DropoutSVRCV
from marginout.estimators.latent import LatentDropoutLogisticRegression, LatentDropoutSVC, LatentDropoutSVR
from marginout.estimators.logistic import DropoutLogisticRegression
from marginout.estimators.mcf import MCFClassifier, MCFRegressor
from marginout.estimators.quantile import DropoutQuantileRegressor, DropoutQuantileRegressorCV
from marginout.estimators.svm import DropoutSVC, DropoutSVR

#: Values of the parameter of a noise that --cv tries, where none is given.
RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
VARIANCES = (0.0, 0.001, 0.01, 0.1, 1.0)
#: Class and values of each kind of noise.
NOISES: dict[str, tuple[Any, tuple[float, ...]]] = {
    "dropout": (noises.Dropout, RATES),
    "deletion": (noises.Deletion, RATES),
    "gaussian": (noises.Gaussian, VARIANCES),
    "laplace": (noises.Laplace, VARIANCES),
    "thinning": (noises.Thinning, RATES),
    "bitswap": (noises.BitSwap, (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)),
}
#: Noises that delete whole groups of features.
GROUPED: dict[str, Any] = {"dropout": noises.GroupDropout, "deletion": noises.GroupDeletion}
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
    "quantile": {
        ("regression", False): DropoutQuantileRegressor,
        ("regression", True): DropoutQuantileRegressorCV,
    },
    "mcf": {("classification", False): MCFClassifier, ("regression", False): MCFRegressor},
    "latent-svm": {("classification", False): LatentDropoutSVC, ("regression", False): LatentDropoutSVR},
    "latent-logistic": {("classification", False): LatentDropoutLogisticRegression},
}
#: Models with a search over C and noise. These also know missing="conditional".
SEARCHED = [name for name, made in FACTORIES.items() if any(cv for _, cv in made)]


def parse_noise(text: str | None, cv: bool, groups: Any = None, otherwise: str = "auto") -> list[Any]:
    """The noise models that a text names: RATE, KIND, KIND:VALUE, or several values.

    A noise that deletes features deletes whole `groups` of them, where these are given.

    >>> parse_noise("deletion:0.5", cv=False)
    [Deletion(rate=0.5)]
    """
    if text is None:
        text = "dropout" if cv else otherwise
    if text.strip().lower() == "auto":
        return ["auto"]
    kind, values = _kind_and_values(text)
    if kind == "poisson":
        return [noises.Poisson()]
    make, grid = NOISES[kind]
    try:
        found = [make(value) for value in (map(float, values.split(",")) if values else grid)]
    except ValueError as error:
        raise UsageError(f"--noise {text!r}: {error} (as in --noise deletion:0.5)") from error
    if not cv and len(found) > 1:
        raise UsageError(
            f"--noise {text!r} names several noises: add --cv to choose among them, or name one value"
        )
    if groups is not None and kind in GROUPED:
        return [GROUPED[kind](groups, noise.rate) for noise in found]
    return found


def _kind_and_values(text: str) -> tuple[str, str]:
    """What stands before and after the colon; a value alone is a rate of dropout."""
    kind, colon, values = text.strip().lower().partition(":")
    if kind in NOISES or (kind == "poisson" and not values):
        return kind, values
    if not colon and kind != "poisson":
        return "dropout", kind
    raise UsageError(f"--noise {text!r}: the kinds are {', '.join(NOISES)} (KIND:VALUE), poisson and auto")


def check_model(arguments: Namespace) -> None:
    """Refuse arguments that are wrong for all data."""
    name, cv = arguments.model, arguments.cv
    noises = parse_noise(arguments.noise, cv, otherwise=_usual(arguments))
    if noises == ["auto"] and (name == "mcf" or arguments.missing == "deleted"):
        other = "--model mcf" if name == "mcf" else "--missing deleted, which deletes whole columns"
        raise UsageError(f"--noise auto cannot be used with {other}: name a rate, as in --noise 0.3")
    if arguments.missing == "conditional" and name not in SEARCHED:
        raise UsageError(
            f"--missing conditional cannot be used with --model {name}: choose svm, logistic or quantile, or "
            "--missing deleted"
        )
    if cv and name not in SEARCHED:
        raise UsageError(
            f"--cv cannot be used with --model {name}: leave it out, or choose svm, logistic or quantile"
        )
    if arguments.quantile is not None and name != "quantile":
        raise UsageError(
            f"--quantile cannot be used with --model {name}: leave it out, or add --model quantile"
        )
    if name == "quantile" and arguments.task == "classification":
        raise UsageError("--model quantile is for numbers: leave --task out, or choose --model svm")
    if name == "mcf" and arguments.expectation is not None:
        raise UsageError(
            "--expectation cannot be used with --model mcf, whose expectations are exact: leave it out"
        )
    if not cv and arguments.C is not None and len(arguments.C) > 1:
        raise UsageError("--C names several values: add --cv to choose among them, or name one")


def make_model(arguments: Namespace, task: str) -> Any:
    """The estimator that the arguments ask for."""
    name, cv = arguments.model, arguments.cv
    factories = FACTORIES[name]
    if (task, cv) not in factories:
        raise UsageError(f"--model {name} is not for {task}: choose --model svm, or set --task")
    options: dict[str, Any] = _noise_options(arguments)
    if arguments.expectation is not None:
        options["expectation"] = arguments.expectation
    if arguments.balanced:
        if task == "regression":
            raise UsageError("--balanced needs classes, but the task is regression: leave it out")
        options["class_weight"] = "balanced"
    if cv:
        options |= {"cv": arguments.folds, "n_jobs": -1}  # what is chosen does not depend on n_jobs
        if arguments.C is not None:
            options["Cs"] = arguments.C
    else:
        options["C"] = arguments.C[0] if arguments.C else 1.0
    options |= {each: getattr(arguments, each) for each in ("tol", "max_iter") if getattr(arguments, each)}
    if arguments.epsilon is not None:
        if task != "regression" or name not in ("svm", "latent-svm"):
            raise UsageError("--epsilon is for regression with --model svm or latent-svm: leave it out")
        options["epsilon"] = arguments.epsilon
    if arguments.loss is not None:
        if task == "regression" or name not in ("svm", "latent-svm"):
            raise UsageError("--loss is for classification with --model svm or latent-svm: leave it out")
        options["loss"] = arguments.loss
    if arguments.quantile is not None:
        several = len(arguments.quantile) > 1
        options["quantile"] = arguments.quantile if several else arguments.quantile[0]
    if arguments.missing != "imputed":
        options["missing"] = arguments.missing
    if name.startswith("latent"):
        options.update(n_hidden=arguments.hidden, random_state=arguments.seed)
    return factories[task, cv](**options)


def _usual(arguments: Namespace) -> str:
    """The noise when nothing is said."""
    return "0.5" if arguments.model == "mcf" or arguments.missing == "deleted" else "auto"


def _noise_options(arguments: Namespace, groups: Any = None) -> dict[str, Any]:
    """The noise of an estimator, or the noises of a search, as its parameters; nothing for its own grid."""
    if arguments.cv and arguments.noise is None and groups is None and arguments.missing != "deleted":
        return {}
    found = parse_noise(arguments.noise, arguments.cv, groups, _usual(arguments))
    return {"noises": found} if arguments.cv else {"noise": found[0]}


def delete_groups(model: Any, arguments: Namespace, groups: Any) -> None:
    """Let the noise of a model delete whole groups of features, if it deletes features."""
    model.set_params(**_noise_options(arguments, groups))


# --------------------------------------------------------------------------- descriptions


def is_search(model: Any) -> bool:
    """Whether a model chooses C and its noise by cross-validation."""
    return "noises" in model.get_params(deep=False)


def quantiles_of(model: Any) -> list[float] | None:
    """The quantiles that a model predicts, a column of `predict` for each; None for other models."""
    parameters = model.get_params(deep=False)
    return np.atleast_1d(parameters["quantile"]).tolist() if "quantile" in parameters else None


def chosen(model: Any) -> Any:
    """The model with the C and the noise that it was trained with: of a search, its choice."""
    return model.best_estimator_ if is_search(model) else model


def noise_of(model: Any) -> Any:
    """The noise that a model was trained with: of "auto", the rate that the data bear."""
    own = chosen(model)
    return getattr(own, "noise_", own.noise)


def describe_noise(noise: Any) -> str:
    """A noise in one line; of groups, their number."""
    given = parameters(noise)
    if "groups" in given:
        return f"{type(noise).__name__}(rate={noise.rate}), {len(np.unique(noise.groups))} groups"
    return repr(noise)


def parameters(noise: Any) -> dict[str, Any]:
    """The parameters of a noise by their names; none for a dropout rate, which is a number."""
    return {field.name: getattr(noise, field.name) for field in fields(noise)} if is_dataclass(noise) else {}


def describe_model(model: Any) -> str:
    """The class of a model, and the parameters that matter most, as chosen by a search or as given."""
    given = model.get_params(deep=False)
    C, noise = chosen(model).C, noise_of(model)
    parts = [type(model).__name__, f"C = {C:.3g}", f"noise {describe_noise(noise)}"]
    quantiles = quantiles_of(model)
    if quantiles:
        parts.append(f"quantile {', '.join(f'{value:g}' for value in quantiles)}")
    if given.get("loss", "hinge") != "hinge":
        parts.append(f"loss {given['loss']}")
    if given.get("expectation", "bound") != "bound":
        parts.append(f"expectation {given['expectation']}")
    if given.get("class_weight") is not None:
        parts.append(f"class_weight {given['class_weight']}")
    if "n_hidden" in given:
        parts.append(f"{given['n_hidden']} hidden units")
    return ", ".join(parts)
