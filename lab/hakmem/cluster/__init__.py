"""Comparisons on many hosts: `--on dask://…`."""
