"""Compiled loops: passes over X, sums over examples, sweeps of solvers. The losses stand in `losses.h`, once."""
