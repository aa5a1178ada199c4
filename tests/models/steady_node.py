"""A node in which nothing is drawn at random but who asks when."""

import numpy as np

from forecache.models.node import layout as at
from forecache.models.node.setup import DRAWS, JITTER_ONE, QUANTILES, NodeSetup, NodeTimes
from forecache.models.node.simulate import run_compiled
from verification.nodes.sample_node import SET

STEADY = {
    "jitter": np.full(QUANTILES, JITTER_ONE),
    "stall_ps": np.zeros((2, QUANTILES), np.int64),
    "wire_ps_per_kib": 0,
}
ONLY_SETS = {"code_by_draw": np.full(DRAWS, SET, np.int64)}


def run(policy: str, times: NodeTimes, setup: NodeSetup) -> at.Node:
    node = at.new_node(times, setup)
    run_compiled(policy, node)
    return node
