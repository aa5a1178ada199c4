"""One node: threads, clients and load generator, in a compiled and a reference execution.

Read `reference.py` first: it is the model, as SimPy processes. `policies/` says how threading
policies differ and executes those with I/O threads, `scheduler.py` is Linux's scheduler for threads
that share cores, `trace.py` records what happens in a run. `setup.py` is all that a run is given.
`native/` is the same model in C; `simulate_node` in `simulate.py` runs it and checks the outcome.
"""
