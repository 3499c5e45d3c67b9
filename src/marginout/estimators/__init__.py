"""scikit-learn's face: parameters, validation, fitted attributes."""
