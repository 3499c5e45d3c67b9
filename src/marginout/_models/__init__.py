"""The models: bases of the estimators, and what each kind of model needs of its own."""
