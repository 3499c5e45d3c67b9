"""Benchmarks of marginout and its peers: `python -m benchmarks`."""
