"""Who shares which cores: from a scenario and a host to groups of threads that queue for them."""

from typing import NamedTuple

from .scenario import Scenario


class Sharing(NamedTuple):
    """Cores of the server's and the load generator's threads; 0: each thread has its own."""

    server_cores: int = 0
    generator_cores: int = 0
    shared: bool = False
    """The load generator's threads run on the server's cores."""
    others: int = 0
    """Busy threads of other programs on the server's cores."""


OWN_CORES_EACH = Sharing()


def sharing(scenario: Scenario, host_cores: int) -> Sharing:
    """The groups of a scenario.

    Parameters
    ----------
    host_cores
        What the operating system can run threads on. Interrupt cores take no thread. A load
        generator on the same host has what the server's `cores` leave, or shares them all; on a
        host of its own it has a core for each thread unless its `cores` say otherwise.
    """
    left = max(1, host_cores - scenario.interrupt_cores)
    server = min(scenario.cores or left, left)
    generators, others = scenario.load_generator.cores, scenario.other_busy_threads
    if generators is not None or not scenario.same_host:
        return Sharing(server, generators or 0, others=others)
    if server < left:
        return Sharing(server, left - server, others=others)
    return Sharing(server, shared=True, others=others)


def shares_cores(scenario: Scenario, groups: Sharing) -> bool:
    """Whether more threads than cores are in one of the groups."""
    generators = scenario.generator_threads
    server = scenario.io_threads + (generators if groups.shared else 0) + groups.others
    return 0 < groups.server_cores < server or 0 < groups.generator_cores < generators
