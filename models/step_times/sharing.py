"""Who shares which cores: from a scenario and a host to groups of threads that queue for them."""

from typing import NamedTuple

from forecache.sim.errors import InputError

from ..scenario.schema import Scenario


class Sharing(NamedTuple):
    """Cores of the server's and the load generator's threads; 0: each thread has its own."""

    server_cores: int = 0
    generator_cores: int = 0
    shared: bool = False
    """The load generator's threads run on the server's cores."""
    others: int = 0
    """Busy threads of other programs on the server's cores."""
    main_pinned: bool = False
    """One of the server's cores is the main thread's alone."""
    quota_cores: float = 0.0
    """CPU time that the server's threads may take, in cores; 0: as much as they want."""
    physical_cores: int = 0
    """Of the server's host, if more threads than these may be busy on it and each runs two at a
    time; 0: every thread has one for itself, or as much of one as its speed says."""


OWN_CORES_EACH = Sharing()


def sharing(scenario: Scenario, host_cores: int) -> Sharing:
    """The groups of a scenario.

    Parameters
    ----------
    host_cores
        What the operating system can run threads on. Interrupt cores take no thread. A load
        generator on the same host has what the server's `cores` leave, or shares them all; on a
        host or socket of its own it has a core for each thread unless its `cores` say otherwise.
    """
    left = max(1, host_cores - scenario.interrupt_cores)
    server = min(scenario.cores or left, left)
    generators, others = scenario.load_generator.cores, scenario.other_busy_threads
    pinned = scenario.main_thread_pinned
    quota = scenario.cpu_quota_cores or 0.0
    if quota >= min(server, scenario.io_threads):
        quota = 0.0  # more than they can take
    own = scenario.load_generator.other_socket or not scenario.same_host
    if generators is not None or own:
        return Sharing(server, generators or 0, False, others, pinned, quota)
    if server < left:
        return Sharing(server, left - server, False, others, pinned, quota)
    return Sharing(server, 0, True, others, pinned, quota)


def beside_server(scenario: Scenario) -> bool:
    """Whether the load generator's threads run on physical cores of the server's socket."""
    return scenario.same_host and not scenario.load_generator.other_socket


def shared_physical_cores(
    scenario: Scenario, groups: Sharing, host_cores: int, threads_per_core: int
) -> int:
    """Physical cores of the server's host, if its threads may have to share them; else 0.

    Whatever `cores` are the server's, they are of as many physical ones as possible, unless the
    scenario says on how many, to itself.
    """
    # Where idle CPUs poll, all siblings are busy anyway (`HostSpeed.with_busy_siblings`).
    if threads_per_core < 2 or scenario.idle_polls:
        return 0
    physical = max(1, host_cores // threads_per_core)
    generators = scenario.generator_threads if beside_server(scenario) else 0
    threads = scenario.io_threads + groups.others + (generators if groups.shared else 0)
    busy = min(threads, groups.server_cores)
    if scenario.physical_cores is not None:
        physical = min(scenario.physical_cores, physical)
    else:
        busy += scenario.interrupt_cores
        if not groups.shared:
            busy += min(generators, groups.generator_cores or generators)
    return physical if busy > physical else 0


def check_cores(scenario: Scenario, host_cores: int) -> None:
    """Refuse a scenario that leaves the server no core, or gives away more than its host has.

    `cores` above the host's count as the host's, with a warning.

    Raises
    ------
    InputError
        `irq_cores`, `main_thread_pinned` or, on the server's host, the load generator's `cores`.
    """
    interrupts, generators = scenario.irq_cores, scenario.load_generator.cores
    if interrupts >= host_cores:
        raise InputError(
            f"field irq_cores: found {interrupts}; valid is less than the host's {host_cores} "
            "cores, of which the server needs one."
        )
    left = host_cores - scenario.interrupt_cores
    groups = sharing(scenario, host_cores)
    beside = scenario.io_threads - 1 + groups.others
    beside += scenario.generator_threads if groups.shared else 0
    if groups.main_pinned and groups.server_cores == 1 and beside:
        raise InputError(
            "field main_thread_pinned: found true; valid is false where the server has one core, "
            "which other threads need as well."
        )
    if scenario.load_generator.other_socket:
        left = host_cores  # of a socket as large as the server's
    if scenario.same_host and generators is not None and generators > left:
        raise InputError(
            f"field load_generator.cores: found {generators}; valid is at most the {left} cores "
            "of the host it shares with the server."
        )


def shares_cores(scenario: Scenario, groups: Sharing) -> bool:
    """Whether more threads than cores are in one of the groups."""
    generators = scenario.generator_threads
    server = scenario.io_threads + (generators if groups.shared else 0)
    if groups.main_pinned and server == 1:
        server = 0  # the main thread, to which no client connects
    else:
        server += groups.others
    return 0 < groups.server_cores < server or 0 < groups.generator_cores < generators
