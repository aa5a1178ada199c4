"""What a new connection takes, and who does it.

The kernel completes TCP's handshake by itself and keeps the connection in the listen backlog; the
event loop accepts a few per turn. With TLS the server's signature follows at once, on the main
thread or, from Valkey 8.1 on, on an I/O thread. Then the client's first command can be read.
"""

from __future__ import annotations

from dataclasses import dataclass

from forecache.hwprofiles.speed import HostSpeed

from ....engines.profile import EngineProfile
from ....scenario.schema import Scenario
from ....step_times.tls import ACCEPT_INSTRUCTIONS, tls_times

CONNECTION_SENDS = 9.0
"""Time of the kernel for a connection's beginning and end on the server's thread, in sends of a
small message: accept4, options, the poll's interest, close, and both handshakes' packets (assumed,
6 to 12). On the machine of the shipped bundles, whose sends take 3.7 us, a new connection took
Valkey 8.0.1 and Redis 7.0.15 35 to 38 us of CPU time while it was busy and a SET took 10, and 24 to
26 us while a SET took 6.4; Valkey 9.1.2 then 23 to 24."""

REJECTED = 0.5
"""Share of that for a connection that is accepted, told that there are too many, and closed
(assumed, 0.3 to 0.8)."""

ACCEPTS = {"tcp": 10, "tls": 1}
"""max-new-connections-per-cycle and max-new-tls-connections-per-cycle, from Redis 7.4 and Valkey
8.0 on (redis PR 12178)."""

ACCEPTS_BEFORE = 1000
"""MAX_ACCEPTS_PER_CALL of earlier ones."""

_LIMITED_FROM = {"redis": (7, 4), "valkey": (8, 0)}
_PS_PER_NS = 1000
_PS_PER_US = 10**6


@dataclass(frozen=True)
class ConnectionWork:
    """What a new connection takes.

    Attributes
    ----------
    main_ps
        Time of the main thread, from accepting to closing.
    helpers_ps
        Time of an I/O thread, if it does the handshake; otherwise 0.
    reject_ps
        Time of the main thread for one that is turned away because of maxclients.
    helpers
        I/O threads that do handshakes.
    per_cycle
        New connections that one turn of the event loop accepts.
    """

    main_ps: int
    helpers_ps: int
    reject_ps: int
    helpers: int
    per_cycle: int


def connection_work(
    scenario: Scenario,
    engine: EngineProfile,
    speed: HostSpeed,
    *,
    kernel_scale: float,
    per_cycle: int | None = None,
    measured_us: float | None = None,
) -> ConnectionWork:
    """What a new connection takes on a host with an engine.

    Parameters
    ----------
    kernel_scale
        Cost of the engine's socket calls against the host's micro-benchmark.
    per_cycle
        Accepts per turn, if not the engine's default.
    measured_us
        Time of the main thread per connection, handshake included, in place of what the profiles
        say.
    """
    accept_ns = kernel_scale * CONNECTION_SENDS * speed.tcp_send_ns
    accept_ns += ACCEPT_INSTRUCTIONS / (speed.user_ipc * speed.clock_ghz)
    handshake_ns = tls_times(
        scenario, engine, speed, kernel_scale=kernel_scale, line_wait_ns=0.0
    ).handshake_ns
    offloaded = engine.tls == "io_threads_and_handshakes" and scenario.io_threads > 1
    helpers_ns = handshake_ns if offloaded else 0.0
    main_ns = accept_ns + handshake_ns - helpers_ns
    if measured_us is not None:
        main_ns, helpers_ns = 1000.0 * measured_us, 0.0
    return ConnectionWork(
        main_ps=round(main_ns * _PS_PER_NS),
        helpers_ps=round(helpers_ns * _PS_PER_NS),
        reject_ps=round(min(main_ns, REJECTED * accept_ns) * _PS_PER_NS),
        helpers=scenario.io_threads - 1,
        per_cycle=per_cycle or _accepts(scenario, engine),
    )


def _version(engine: EngineProfile) -> tuple[int, ...]:
    parts = (engine.version or "0").split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())


def _accepts(scenario: Scenario, engine: EngineProfile) -> int:
    first = _LIMITED_FROM.get(engine.engine)
    if first is None or _version(engine) < first:
        return ACCEPTS_BEFORE
    return ACCEPTS["tcp" if scenario.tls is None else "tls"]
