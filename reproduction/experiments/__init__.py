"""One module per table or figure, each with an EXPERIMENT, in the order of the report."""

from __future__ import annotations

from importlib import import_module

from reproduction.cells import Experiment

NAMES = (
    "losses",
    "explicit",
    "amazon",
    "amazon_20000",
    "documents",
    "cifar",
    "hotel",
    "latent_amazon",
    "nightmare",
    "units_mnist",
    "units_cifar",
    "sensitivity",
    "time",
    "scoreboard",
)


def load(name: str) -> Experiment:
    """Import an experiment by name."""
    module = import_module(f"reproduction.experiments.{name}")
    experiment: Experiment = module.EXPERIMENT
    return experiment
