"""Marginalised corrupted features: cumulants of the noise, objective, and solvers."""
