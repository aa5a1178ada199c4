"""One node: threads, clients and load generator, in a compiled and a reference execution.

`setup` says what a node is made of and how long each step takes; `compiled` runs it under Numba;
`reference` is the same model as SimPy processes and is the one to read first. `simulate_node` in
`simulate.py` runs the compiled execution and checks the outcome. `policies.py` says how threading
policies differ. Nothing is imported here, so that engine profiles name policies without Numba.
"""
