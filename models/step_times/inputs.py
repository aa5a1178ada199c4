"""What a simulation of a node needs to be told, as plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, NamedTuple, TypeVar

from forecache.hwprofiles.speed import HostSpeed

from ..engines.commands import (
    CommandKind,
    command_kinds,
    execute_instructions,
    executed_kinds,
    repeated_instructions,
)
from ..engines.generator import PLAIN_RULES, GeneratorRules, GeneratorWork
from ..engines.profile import EngineProfile, EngineWork
from ..footprint.limits import PAGE_BYTES, PAGES_PER_WRITE
from ..footprint.node import resident_bytes
from ..footprint.saving import FILE_BYTE_NS, FILE_WRITE_NS
from ..memory.caches import page_walk_ns
from ..memory.contents import prefetch_batch
from ..node.policies import Policy, running
from ..scenario.schema import Scenario
from .cores import OWN_CORES_EACH, Sharing

FORK_WAITS_PER_PAGE = 0.5
"""Of each small page a fork copies the entry of its table and counts another user of it: half a
wait for DRAM and for the way to the page, since neighbours are often fetched together. 13.1 ms for
a GiB are 50 ns a page on a physical machine (Redis documentation, "Diagnosing latency issues"), 19
are 73 on a c7g.2xlarge (89 ms for 5 GB, valkey issue 2767), whose waits take some 100 and 140 ns;
on a guest whose waits take 400 ns since neighbours load its memory, 160 to 250
(docs/forks.md). Assumed range: 0.33 to 0.9."""

_PAGES_PER_GIB = 2**30 / PAGE_BYTES

FORK_MS_PER_GIB = _PAGES_PER_GIB * FORK_WAITS_PER_PAGE * 130.0 / 1e6
"""On a host that isn't known: waits of 130 ns (assumed, 90 to 200)."""


COPY_ON_WRITE_NS = 1200.0
"""First write to a page while a child lives: a fault and 4 KiB copied (assumed, 600 to 3,000)."""


class DiskTimes(NamedTuple):
    """What the constants above say, or a draw of them."""

    file_write_ns: float = FILE_WRITE_NS
    fork_waits_per_page: float = FORK_WAITS_PER_PAGE
    copy_on_write_ns: float = COPY_ON_WRITE_NS
    pages_per_write: float = PAGES_PER_WRITE
    file_byte_ns: float = FILE_BYTE_NS

    def fork_ms(self, speed: HostSpeed, resident_bytes: float) -> float:
        """How long a fork stops a server with small pages; its main thread copies page tables."""
        wait_ns = speed.dram_ns + page_walk_ns(speed, resident_bytes)
        return resident_bytes / PAGE_BYTES * self.fork_waits_per_page * wait_ns / 1e6


ASSUMED_DISK = DiskTimes()

DISK_RANGES = {
    "file_write_ns": (250.0, FILE_WRITE_NS, 2000.0),
    "file_byte_ns": (0.25, FILE_BYTE_NS, 1.2),
    "fork_waits_per_page": (0.33, FORK_WAITS_PER_PAGE, 0.9),
    "copy_on_write_ns": (600.0, COPY_ON_WRITE_NS, 3000.0),
    "pages_per_write": (1.5, PAGES_PER_WRITE, 5.0),
}
"""(low, value, high) by the field of `DiskTimes`."""


_CHANGED_EVENT_SHARE = 0.44
"""What an epoll_ctl that asks for another event of a socket takes of one that adds a connection or
takes it out (measured on a Zen 3 guest: 605 ns to ask for writing and 520 ns to take that back, of
1,285 ns)."""

_MOVING_CYCLES_PER_BYTE = 0.05
"""Of a memmove within the nearest cache whose ends overlap (assumed, 0.03 to 0.1: loads and stores
of 32 bytes, most of them across the end of a line)."""

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True)
class NodeInputs:
    """Everything one simulation of a node needs, after overrides and draws.

    Durations follow from it (`stages.node_times`), and so do counts and rules of a run. What only
    concerns memory (`memory/`, `footprint/`) doesn't depend on speeds and takes scenario, engine
    and work.

    Attributes
    ----------
    work, speed
        The server: what its engine does, and how fast its host does it.
    generator, generator_speed
        The load generator, likewise; the same speed if they share a host.
    generator_rules
        What the load generator does in which order.
    served_rps
        Requests a second that a closed loop serves, where a pilot run told.
    """

    scenario: Scenario
    engine: EngineProfile
    work: EngineWork
    speed: HostSpeed
    generator: GeneratorWork
    generator_speed: HostSpeed
    generator_rules: GeneratorRules = PLAIN_RULES
    sharing: Sharing = OWN_CORES_EACH
    disk: DiskTimes = ASSUMED_DISK
    served_rps: float | None = None
    _kept: dict[Callable[..., Any], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Answers of functions of these inputs; see `kept`."""

    @cached_property
    def kinds(self) -> list[CommandKind]:
        """The commands with their shares."""
        return command_kinds(self.scenario)

    @cached_property
    def executed(self) -> list[CommandKind]:
        """The same with the commands of transactions and scripts in their places."""
        return executed_kinds(self.kinds)

    @property
    def lone(self) -> bool:
        """Whether the main thread is the only one."""
        return self.scenario.io_threads == 1

    @cached_property
    def policy(self) -> Policy:
        """The policy of so many threads."""
        return running(self.engine.policy, io_threads=self.scenario.io_threads)

    @property
    def prefetch_batch(self) -> int:
        """Keys of one batched look-up."""
        return prefetch_batch(self.scenario, self.engine)

    @cached_property
    def resident_bytes(self) -> float:
        """Resident memory of the server."""
        return resident_bytes(self.scenario, self.engine, self.work)

    def user_ns(self, instructions: float) -> float:
        """Time that the server's user code takes for instructions."""
        return instructions / user_rate(self.speed)

    def execute_instructions(self, kind: CommandKind, *, apart: float = 0.0) -> float:
        """Instructions at `user_ipc` that take as long as executing a command does.

        What repeats within it retires faster, by `repeat_ipc_ratio`.

        Parameters
        ----------
        apart
            How many of those that repeat another thread does, which are counted in full.
        """
        work = self.work.commands
        repeated = max(0.0, repeated_instructions(kind, work) - apart)
        saved = repeated * (1.0 - 1.0 / self.speed.repeat_ipc_ratio)
        return execute_instructions(kind, work) - saved

    @property
    def rate_rps(self) -> float | None:
        """Requests a second: the scenario's, or those served; None where neither is known."""
        offered_rps = self.scenario.workload.mean_rate_rps
        return self.served_rps if offered_rps is None else offered_rps

    @property
    def polls_to_send(self) -> bool:
        """Whether a client sends its next batch only after the load generator's next poll."""
        workload = self.scenario.workload
        pauses = workload.arrival == "open_loop" or workload.think_us > 0
        return self.generator_rules.polls_to_send and not pauses

    def socket_ns(self, speed: HostSpeed) -> tuple[float, float]:
        """A receive and a send of a small message at one end of one of the connections.

        What many connections add was measured over TCP alone.
        """
        if self.scenario.transport == "unix_socket":
            return speed.unix_recv_ns, speed.unix_send_ns
        times = speed.connection_scale(self.scenario.workload.clients)
        return times * speed.tcp_recv_ns, times * speed.tcp_send_ns

    def reply_event_ns(self) -> float:
        """What else the kernel does for a write that waits for an event of its socket.

        That event, and two calls of epoll_ctl; nothing for any other write.
        """
        if not self.engine.replies_by_event:
            return 0.0
        changing_ns = _CHANGED_EVENT_SHARE * self.speed.epoll_ctl_ns
        return 2.0 * changing_ns + self.speed.epoll_event_ns

    @cached_property
    def request_bytes(self) -> float:
        """Of the mean request."""
        key_bytes = self.scenario.workload.key_bytes
        return sum(kind.share * kind.request_bytes(key_bytes) for kind in self.kinds)

    @cached_property
    def reply_bytes(self) -> float:
        """Of the mean reply."""
        return sum(kind.share * kind.reply_bytes for kind in self.kinds)

    @property
    def moving_ns(self) -> float:
        """Moving what is left of a read to the front of the buffer, per command."""
        if not self.engine.moves_rest:
            return 0.0
        batch_bytes = self.scenario.workload.pipeline * self.request_bytes
        read_bytes = min(batch_bytes, float(self.engine.read_limit_bytes))
        moved_bytes = max(0.0, read_bytes - self.request_bytes) / 2.0
        return moved_bytes * _MOVING_CYCLES_PER_BYTE / self.speed.clock_ghz

    def recv_ns_per_byte(self) -> float:
        """What receiving requests takes the server per byte; a pipeline is sent in one go."""
        batch_bytes = self.scenario.workload.pipeline * self.request_bytes
        return self.speed.recv_ns_per_byte(batch_bytes)

    def send_ns_per_byte(self) -> float:
        """What sending replies takes the server per byte; those of a pipeline leave in one go."""
        batch_bytes = self.scenario.workload.pipeline * self.reply_bytes
        return self.speed.send_ns_per_byte(batch_bytes)

    def copying_ns(self) -> float:
        """Kernel copies of the mean request and of its reply, at the server."""
        received_ns = self.request_bytes * self.recv_ns_per_byte()
        return received_ns + self.reply_bytes * self.send_ns_per_byte()


def kept(function: Callable[[NodeInputs], AnswerT]) -> Callable[[NodeInputs], AnswerT]:
    """A function of inputs alone, whose answer they keep: it is wanted at several places."""

    @wraps(function)
    def answer(inputs: NodeInputs) -> AnswerT:
        known = inputs._kept
        if function not in known:
            known[function] = function(inputs)
        found: AnswerT = known[function]
        return found

    return answer


def user_rate(speed: HostSpeed) -> float:
    """Instructions of user code per ns, its data in the first two cache levels."""
    return speed.user_ipc * speed.clock_ghz
