"""The reference execution: the node as SimPy processes that read like the engine's own loop.

It is the specification of behaviour. `node` holds what all policies share (sockets, wires, costs),
`generator` the load generator, and each policy has a module with its main thread and I/O threads.
"""

from collections.abc import Callable
from typing import TypeVar

from ..setup import NodeSetup, NodeTimes, under_policy
from . import (
    asynchronous,
    fork_join,
    locked_threads,
    multiplexed,
    owning_threads,
    shared_queues,
    single_thread,
)
from .node import ReferenceNode

NodeT = TypeVar("NodeT", bound=ReferenceNode)

POLICIES: dict[str, Callable[[ReferenceNode], None]] = {
    "single_thread": single_thread.start,
    "asynchronous": asynchronous.start,
    "shared_queues": shared_queues.start,
    "fork_join": fork_join.start,
    "multiplexed": multiplexed.start,
    "owning_threads": owning_threads.start,
    "locked_threads": locked_threads.start,
}


def run_reference(policy: str, times: NodeTimes, setup: NodeSetup) -> ReferenceNode:
    """Simulate a node with SimPy until `setup.end_ps`; the results are in the returned node."""
    return run_node(policy, ReferenceNode(times, under_policy(policy, setup)))


def run_node(policy: str, node: NodeT) -> NodeT:
    """Simulate a node that was made before, a traced one say, until its `setup.end_ps`."""
    POLICIES[policy](node)
    node.run()
    return node
