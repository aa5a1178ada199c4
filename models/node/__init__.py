"""One node: threads, clients and load generator, in a compiled and a reference execution.

`setup` says what a node is made of and how long each step takes; `compiled` runs it under Numba;
`reference` is the same model as SimPy processes and is the one to read first.
"""
