"""Which CPUs are whose: lists of CPUs that respect physical cores.

A thread of the server has a physical core for itself while there are enough, and the other
hyperthread of that core stays idle. What is left goes to interrupts, to background threads and
saving children, and to everything else on the host. Interrupts have the lowest CPUs, since that is
where Linux boots and where drivers put their first queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

SiblingCpus = Literal["halves", "pairs"]


@dataclass(frozen=True, kw_only=True)
class CpuNumbers:
    """The CPUs of a host, as Linux numbers them.

    Attributes
    ----------
    cpus, threads_per_core
        CPUs that the operating system sees, and how many of them are one physical core.
    sibling_cpus
        `halves`: CPU i and i + half their number share a core; `pairs`: 2i and 2i + 1.
    """

    cpus: int
    threads_per_core: int = 1
    sibling_cpus: SiblingCpus = "halves"

    @property
    def cores(self) -> list[tuple[int, ...]]:
        """The CPUs of each physical core."""
        each = self.threads_per_core
        count = self.cpus // each
        if self.sibling_cpus == "pairs":
            return [tuple(range(core * each, (core + 1) * each)) for core in range(count)]
        return [tuple(core + count * n for n in range(each)) for core in range(count)]


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Lists of CPUs. No CPU of the server is in another list.

    Attributes
    ----------
    server
        Main thread and I/O threads: one list, since `server-cpulist` holds for all of them.
    interrupts
        Of the network; none: they are left where the kernel has them.
    background, neighbours
        Background threads and saving children; everything else on the host. Where little is left
        the two are the same list, and that of interrupts too where nothing else is.
    idle
        Hyperthreads beside the server's CPUs that nobody gets.
    server_cores
        Physical cores that the server's CPUs are on.
    whole_cores
        Whether nobody else has a CPU on one of them.
    """

    server: tuple[int, ...]
    interrupts: tuple[int, ...]
    background: tuple[int, ...]
    neighbours: tuple[int, ...]
    idle: tuple[int, ...]
    server_cores: int
    whole_cores: bool

    @property
    def separates(self) -> bool:
        """Whether anything is kept off the server's CPUs."""
        return bool(self.background)


def place(machine: CpuNumbers, *, server: int, interrupts: int, busy_neighbours: int) -> Placement:
    """Lay out a host's CPUs.

    Parameters
    ----------
    server
        CPUs for the server's threads, at least 1: one each, or how many the scenario gives them.
    interrupts
        CPUs for interrupts. If they don't all fit beside the server, it gets fewer.
    busy_neighbours
        Threads of other programs that keep running. With some, the server rather shares its
        physical cores with itself than with them.
    """
    cores, each = machine.cores, machine.threads_per_core
    server = min(server, machine.cpus)
    interrupts = max(0, min(interrupts, machine.cpus - server))
    if (len(cores) - server) * each >= max(1, interrupts):
        return _whole_cores(cores, server, 1, interrupts, busy_neighbours)
    if each > 1 and (busy_neighbours > 0 or interrupts > 0):
        kept = len(cores) - -(-(interrupts + 1) // each)
        if 0 < server <= kept * each:
            return _whole_cores(cores, kept, each, interrupts, busy_neighbours)
    return _shared_cores(cores, server, interrupts, busy_neighbours)


def _whole_cores(
    cores: Sequence[tuple[int, ...]], own: int, each: int, interrupts: int, busy_neighbours: int
) -> Placement:
    """The server has `own` cores to itself, and `each` CPUs of every one of them."""
    first = -(-interrupts // len(cores[0]))
    before, mine, after = cores[:first], cores[first : first + own], cores[first + own :]
    server = [cpu for core in mine for cpu in core[:each]]
    taken = list(chain.from_iterable(before))[:interrupts]
    left = [tuple(cpu for cpu in core if cpu not in taken) for core in [*before, *after]]
    background, neighbours = _split([core for core in left if core], taken, busy_neighbours)
    return Placement(
        server=tuple(sorted(server)),
        interrupts=tuple(sorted(taken)),
        background=background,
        neighbours=neighbours,
        idle=tuple(sorted(set(chain.from_iterable(mine)) - set(server))),
        server_cores=own,
        whole_cores=True,
    )


def _shared_cores(
    cores: Sequence[tuple[int, ...]], server: int, interrupts: int, busy_neighbours: int
) -> Placement:
    """Too few cores: others get hyperthreads beside the server's, or there is nothing for them."""
    in_turn = [core[n] for n in range(len(cores[0])) for core in cores]
    used, left = in_turn[:server], in_turn[server:]
    taken, rest = left[:interrupts], left[interrupts:]
    background, neighbours = _split([tuple(rest)] if rest else [], taken, busy_neighbours)
    return Placement(
        server=tuple(sorted(used)),
        interrupts=tuple(sorted(taken)),
        background=background,
        neighbours=neighbours,
        idle=(),
        server_cores=sum(1 for core in cores if set(core) & set(used)),
        whole_cores=not left,
    )


def _split(
    cores: Sequence[tuple[int, ...]], interrupts: Sequence[int], busy_neighbours: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """CPUs of background threads and of neighbours: one core and the rest, or the same CPUs.

    The same where there is one core, where neighbours keep more CPUs busy than the rest has, and
    where interrupts have all that is left.
    """
    everything = tuple(sorted(chain.from_iterable(cores or [tuple(interrupts)])))
    if len(cores) < 2 or busy_neighbours > len(everything) - len(cores[0]):
        return everything, everything
    return tuple(sorted(cores[0])), tuple(sorted(chain.from_iterable(cores[1:])))


def cpu_list(cpus: Sequence[int], *, separator: str = ",") -> str:
    """CPUs in the kernel's format: 0-3,8."""
    parts: list[str] = []
    ordered = sorted(set(cpus))
    start = 0
    for n, cpu in enumerate(ordered):
        if n + 1 == len(ordered) or ordered[n + 1] != cpu + 1:
            first = ordered[start]
            parts.append(f"{first}" if first == cpu else f"{first}-{cpu}")
            start = n + 1
    return separator.join(parts)
