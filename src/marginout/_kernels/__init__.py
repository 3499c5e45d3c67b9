"""Compiled loops: passes over X, sums over examples, sweeps of solvers. `losses.h` has the losses."""
