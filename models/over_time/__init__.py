"""Scenarios that run over minutes and hours, one package for each kind.

`simulate_scenario.py` simulates a scenario file of any kind; `runs.py` runs every point of its
sweep with every seed.
"""
