"""Scenarios that run over minutes and hours, one package for each kind.

`kinds.py` is the registry; `runs.py` runs every point of a sweep with every seed.
"""
