"""The compiled passes over X. Nothing here knows about noise, losses or solvers."""
