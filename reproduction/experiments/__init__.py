"""One module per table or figure; each has an EXPERIMENT. The order is that of the report."""

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
)


def load(name: str) -> Experiment:
    """An experiment by name; its module is imported only now."""
    module = import_module(f"reproduction.experiments.{name}")
    experiment: Experiment = module.EXPERIMENT
    return experiment
