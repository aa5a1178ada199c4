"""A reference run that records what every thread does and where every request's time goes.

Policies are unaware of it. A step begins where an agent holds, and bears the name of the process
function that asked for it. What it consists of follows from the shared steps (`read`, `execute`,
`write`, `poll`) and the tables of durations it called for; what is left of its duration is what the
policy adds to them, mostly handing over jobs. A traced run is the same run: no
number, order or random draw changes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from forecache.sim.simpy_kernel import Agent

from .reference import ANY_COMMAND, Client, Command, ReferenceNode
from .scheduler import CoreAgent
from .setup import NodeSetup, NodeTimes

NETWORK_OUT, POLL, NETWORK_BACK = "network out", "poll", "network back"
SEND, READ, LOOK_UP, EXECUTE, WRITE, RECEIVE = (
    *("send", "read", "look up", "execute", "write"),
    "receive",
)
"""What happens to a request, in this order: steps of threads, and `NETWORK_OUT`, `NETWORK_BACK`."""

PARSE, MEMORY, SIBLING, INTERRUPTED, OTHER = (
    *("parse", "memory", "sibling", "interrupted"),
    "other",
)


@dataclass
class Step:
    """What one thread does, or waits for, from one moment to another.

    Attributes
    ----------
    thread
        Number of the agent: the main thread, I/O threads, then those of the load generator.
    name
        Name of the process function that began it.
    idle
        Whether the thread waits, for work, a wake-up or a line from another core.
    parts
        (what, ps) in order; they may last less than the step, never longer.
    end_ps
        None while it lasts.
    serves
        What it does to requests: `SEND`, `READ` and so on.
    """

    thread: int
    name: str
    start_ps: int
    idle: bool
    parts: list[tuple[str, int]]
    end_ps: int | None = None
    serves: frozenset[str] = frozenset()

    def pieces(self, until_ps: int) -> list[tuple[str, int, int]]:
        """(what, start, end) in ps without gaps or overlaps; the rest of the step is `OTHER`."""
        end_ps = until_ps if self.end_ps is None else self.end_ps
        found: list[tuple[str, int, int]] = []
        at_ps = self.start_ps
        for what, lasts_ps in [*self.parts, (OTHER, end_ps - self.start_ps)]:
            ends = min(end_ps, at_ps + lasts_ps)
            if ends > at_ps:
                if found and found[-1][0] == what:
                    what, at_ps, _ = found.pop()
                found.append((what, at_ps, ends))
                at_ps = ends
        return found


@dataclass
class TracedRequest:
    """A request on its way: when what happened to it, and the steps that served it."""

    client: int
    index: int
    due_ps: int
    steps: dict[str, Step] = field(default_factory=dict)
    arrived_ps: int | None = None
    """When the server's socket held it."""
    polled_ps: int | None = None
    """When an epoll_wait found it."""
    returned_ps: int | None = None
    """When the client's socket held the reply."""
    done_ps: int | None = None


class _Noted(np.ndarray):
    """A table of durations that reports which of them are looked up."""

    note: Callable[[int], None]

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        if np.ndim(value) == 0:
            self.note(int(value))
        return value


def _noted(table: np.ndarray, note: Callable[[int], None]) -> np.ndarray:
    watched = np.asarray(table).view(_Noted)
    watched.note = note
    return watched


class _Reports(Agent):
    """An agent that reports the beginning of every step."""

    trace: TracedNode
    _waking = False

    def hold(self, delay_ps: int) -> simpy.Event:
        self.trace.begin(self.number, idle=False)
        return super().hold(delay_ps)

    def hold_until(self, time_ps: int) -> simpy.Event:
        if not self._waking:
            self.trace.begin(self.number, idle=True)
        return super().hold_until(time_ps)

    def sleep_until(self, time_ps: int) -> simpy.Event:
        self.trace.begin(self.number, idle=True)
        return super().sleep_until(time_ps)

    def spin(self, look_ps: int | None = None) -> simpy.Event:
        self.trace.begin(self.number, idle=True)
        return super().spin(look_ps)

    def sleep(self) -> simpy.Event:
        self.trace.begin(self.number, idle=True)
        return super().sleep()

    def wake(self, at_ps: int) -> None:
        # Called by the thread that wakes it, in the middle of a step of that thread.
        self._waking = True
        super().wake(at_ps)
        self._waking = False


class _ReportingCoreAgent(_Reports, CoreAgent):
    """The same for an agent that shares cores."""


class TracedNode(ReferenceNode):
    """A reference node that hands finished steps and requests over.

    Parameters
    ----------
    on_step
        Called with every step that has ended, in the order of their ends.
    on_request
        Called with every request whose reply was taken.
    """

    def __init__(
        self,
        times: NodeTimes,
        setup: NodeSetup,
        *,
        on_step: Callable[[Step], None] = lambda _step: None,
        on_request: Callable[[TracedRequest], None] = lambda _request: None,
    ) -> None:
        self._on_step, self._on_request = on_step, on_request
        self._steps: dict[int, Step] = {}
        self._parts: list[tuple[str, int]] = []
        self._serves: list[tuple[str, TracedRequest]] = []
        self._requests: dict[tuple[int, int], TracedRequest] = {}
        self._look_ups: dict[int, Step] = {}
        self._fetched: list[TracedRequest] = []

        def noting(what: str) -> Callable[[int], None]:
            return lambda lasts_ps: self._parts.append((what, lasts_ps))

        super().__init__(
            times._replace(
                parse_by_code_ps=_noted(times.parse_by_code_ps, noting(PARSE)),
                prefetch_by_keys_ps=_noted(times.prefetch_by_keys_ps, noting(LOOK_UP)),
            ),
            setup,
        )

    # --- steps of threads -------------------------------------------------------------------

    def new_agent(self, number: int) -> Agent:
        """An agent that reports its steps here."""
        agent = self.scheduler.new_agent(number, _Reports, _ReportingCoreAgent)
        agent.trace = self
        return agent

    def begin(self, thread: int, *, idle: bool) -> None:
        """A thread's step ends and its next one begins, made of what was called for just now."""
        last = self._steps.get(thread)
        if last is not None:
            last.end_ps = self.now
            self._on_step(last)
        serves = frozenset(what for what, _ in self._serves)
        step = Step(thread, _process_function(), self.now, idle, self._parts, serves=serves)
        self._steps[thread] = step
        for what, request in self._serves:
            request.steps[what] = step
        if any(what == LOOK_UP for what, _ in self._parts):
            self._look_ups[thread] = step
        for request in self._fetched:
            if thread in self._look_ups:
                request.steps[LOOK_UP] = self._look_ups[thread]
        self._parts, self._serves, self._fetched = [], [], []

    def with_interruptions(self, thread: int, duration_ps: int) -> int:
        """Notes what a busy sibling adds to a step, and the interruptions that fall into it."""
        longer_ps, alone_ps = super().with_interruptions(thread, duration_ps), duration_ps
        if thread < self.setup.sibling_threads:
            duration_ps = self.slowed_by_siblings(alone_ps)
        if duration_ps > alone_ps:
            self._parts.append((SIBLING, duration_ps - alone_ps))
        if longer_ps > duration_ps:
            self._parts.append((INTERRUPTED, longer_ps - duration_ps))
        return longer_ps

    def polling(self, found: int) -> int:
        """Notes the call."""
        duration_ps = super().polling(found)
        self._parts.append((POLL, duration_ps))
        return duration_ps

    # --- requests on their way --------------------------------------------------------------

    def _those(self, client: Client, first: int, last: int) -> list[TracedRequest]:
        numbered = ((client.number, index) for index in range(first, last))
        return [self._requests[key] for key in numbered if key in self._requests]

    def _serve(self, what: str, client: Client, first: int, last: int) -> None:
        self._serves += [(what, request) for request in self._those(client, first, last)]

    def new_commands(
        self, client: Client, commands: int, due_ps: int, code: int = ANY_COMMAND
    ) -> int:
        """New requests set out."""
        first = client.sent
        size_bytes = super().new_commands(client, commands, due_ps, code)
        for index in range(first, client.sent):
            self._requests[client.number, index] = TracedRequest(client.number, index, due_ps)
        self._serve(SEND, client, first, client.sent)
        return size_bytes

    def deliver_request(self, client: Client, commands: int, size_bytes: int) -> int:
        """They will be in the server's socket at the stamp on the wire."""
        stamp = super().deliver_request(client, commands, size_bytes)
        for request in self._those(client, client.sent - commands, client.sent):
            request.arrived_ps = stamp
        return stamp

    def poll(self, thread: int = 0) -> list[Client]:
        """Those found are known to the server."""
        found = super().poll(thread)
        for client in found:
            for request in self._those(client, client.read, client.arrived):
                if request.polled_ps is None:
                    request.polled_ps = self.now
        return found

    def read(self, client: Client) -> int:
        """The step that completes a command counts as its read."""
        first = client.read
        duration_ps = super().read(client)
        for request in self._those(client, first, client.read):
            if request.polled_ps is None:
                # It came after the poll began.
                request.polled_ps = max(self.now, request.arrived_ps or 0)
        self._serve(READ, client, first, client.read)
        self._parts.append((READ, duration_ps))
        return duration_ps

    def execute(self, client: Client, *, fetched: int, **how: Any) -> int:
        """A pipeline is executed in one step; what isn't noted as something else is its work."""
        before = len(self._parts)
        duration_ps = super().execute(client, fetched=fetched, **how)
        other_ps = sum(lasts_ps for _, lasts_ps in self._parts[before:])
        self._parts.append((EXECUTE, duration_ps - other_ps))
        self._serve(EXECUTE, client, client.executed, client.read)
        last = client.executed
        while fetched > 0 and last < client.read:
            fetched -= self.keys(client, last, last + 1)
            last += 1
        self._fetched += self._those(client, client.executed, last)
        return duration_ps

    def memory_wait_ps(self, command: Command, warm: int) -> int:
        """Notes the wait for memory."""
        duration_ps = super().memory_wait_ps(command, warm)
        self._parts.append((MEMORY, duration_ps))
        return duration_ps

    def execute_one(self, client: Client) -> int:
        """A step of its own."""
        before = len(self._parts)
        duration_ps = super().execute_one(client)
        other_ps = sum(lasts_ps for _, lasts_ps in self._parts[before:])
        self._parts.append((EXECUTE, duration_ps - other_ps))
        self._serve(EXECUTE, client, client.executed, client.executed + 1)
        return duration_ps

    def write(self, client: Client) -> int:
        """Replies that are ready leave together."""
        self._serve(WRITE, client, client.written, client.executed)
        duration_ps = super().write(client)
        self._parts.append((WRITE, duration_ps))
        return duration_ps

    def deliver_reply(self, client: Client) -> int:
        """They will be in the client's socket at the stamp on the wire."""
        first = client.written
        stamp = super().deliver_reply(client)
        for request in self._those(client, first, client.written):
            request.returned_ps = stamp
        return stamp

    def complete(self, client: Client, index: int, read_ps: int) -> None:
        """The client has the reply; the step of its thread that ends now took it."""
        super().complete(client, index, read_ps)
        request = self._requests.pop((client.number, index))
        request.done_ps = self.now
        generator = self.setup.io_threads + self.setup.generator_of(client.number)
        request.steps[RECEIVE] = self._steps[generator]
        self._on_request(request)


def _process_function() -> str:
    """The name of the innermost process function that is running."""
    frame = sys._getframe(1)
    while not frame.f_code.co_flags & inspect.CO_GENERATOR and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name.replace("_", " ")
