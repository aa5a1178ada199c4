"""One node: threads, clients and load generator, in a compiled and a reference execution.

`setup` says what a node is made of and how long each step takes; `compiled` runs it under Numba;
`reference` is the same model as SimPy processes and is the one to read first. `simulate_node`
runs the compiled execution and checks the outcome.
"""

from .setup import NodeSetup, NodeTimes
from .simulate import POLICIES, NodeResult, simulate_node, warm_up_compiler

__all__ = ["POLICIES", "NodeResult", "NodeSetup", "NodeTimes", "simulate_node", "warm_up_compiler"]
