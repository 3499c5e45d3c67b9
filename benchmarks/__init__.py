"""Benchmarks of marginout beside its peers: `python -m benchmarks`."""
