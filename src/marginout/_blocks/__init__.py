"""Fits to examples in blocks: on disk, in memory, or on a Dask cluster."""
