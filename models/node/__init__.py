"""One node: threads, clients and load generator, in a compiled and a reference execution.

`setup` says what a node is made of and how long each step takes; `native/` is the compiled
execution, in C; `reference` is the same model as SimPy processes and is the one to read first.
`simulate_node` in `simulate.py` runs the compiled execution and checks the outcome. `policies.py`
says how threading policies differ.
"""
