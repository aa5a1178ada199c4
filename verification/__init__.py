"""Long checks of the foundations against results known without simulation.

`python -m verification` runs them all; the tests in `tests/` are the quick ones. `queueing/` has
queues and the statistics of runs, `nodes/` simulated nodes, `consistency/` random scenarios of
every kind, `plans.py` capacity plans over seeds, `inputs/` damaged files, `posterior.py` fits. A
check is a `Check` of `check.py` in a module's `CHECKS`, which `__main__.py` lists. `answers.py` is
no such check: it keeps what is answered, and compares after a change of structure.
"""
