"""Designs: X together with the moments of its corruption, for every way to store X and to corrupt it."""

from marginout._core.design import groups as groups  # adds its designs to those of `storage`
