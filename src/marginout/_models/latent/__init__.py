"""One hidden layer under feature noise: activations, objective, solvers, and the base of its estimators."""
