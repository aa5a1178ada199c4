"""The reference execution: the node as SimPy processes that read like the engine's own loop.

It is the specification of behaviour. `node` holds what all policies share (sockets, wires, costs),
`generator` the load generator, and each policy has a module with its main thread and I/O threads.
"""

from typing import TypeVar

from ..policies import POLICIES, under_policy
from ..setup import NodeSetup, NodeTimes
from .node import ReferenceNode

NodeT = TypeVar("NodeT", bound=ReferenceNode)


def run_reference(policy: str, times: NodeTimes, setup: NodeSetup) -> ReferenceNode:
    """Simulate a node with SimPy until `setup.end_ps`; the results are in the returned node."""
    return run_node(policy, ReferenceNode(times, under_policy(policy, setup)))


def run_node(policy: str, node: NodeT) -> NodeT:
    """Simulate a node that was made before, a traced one say, until its `setup.end_ps`."""
    POLICIES[policy].reference_module().start(node)
    node.run()
    return node
