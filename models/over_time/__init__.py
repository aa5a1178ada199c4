"""Scenarios that run over minutes and hours, one package for each kind.

`simulate_scenario.py` simulates a scenario file of any kind; `runs.py` runs every point of its
sweep with every seed, and `kept_runs.py` keeps results of runs that are done. The kinds share
`recorder.py`, what a run answers with, and `caching.py`, what caches hold and the database behind.
"""
