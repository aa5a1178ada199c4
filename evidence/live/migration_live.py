"""Move slots between two real servers on this machine and measure what it takes.

The source has the first core, the target the second; the operator, which mostly waits, and the
load generator, where there is one, share the second with the target. Key by key the operator does
what `redis-cli --cluster reshard` does; atomic is one CLUSTER MIGRATESLOTS.
"""

from __future__ import annotations

import os
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.loadgen import LoadGenerator, LoadSnapshot
from forecache.calibration.drive.servers import EngineProcess, free_port
from forecache.models.over_time.cluster.migration import PIPELINE
from forecache.models.over_time.cluster.slots import SLOTS, slot_of
from forecache.sim.errors import EngineError, InputError

from .load import process_cpu_ns

_JOIN_S, _MOVE_S, _POLL_S = 30.0, 60.0, 0.002
_KEY_BYTES = 16
_FILL = """
for n = 1, tonumber(ARGV[2]) do
  redis.call('SET', KEYS[1] .. string.format('%06d', n), ARGV[1])
end
"""
LOAD_CLIENTS = 1
_LOAD_WARM_S = 0.5
_BEFORE_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One move: how, of what, and with which load beside it."""

    method: str
    """`key_by_key` or `atomic`."""
    slots: int
    keys: int
    """In each slot."""
    value_bytes: int
    pipeline: int = PIPELINE
    loaded: bool = False
    """A client in a closed loop GETs one key of another slot of the source."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one trial took.

    Attributes
    ----------
    duration_s
        From the operator's first command to its last reply.
    source_ns, target_ns, child_ns, operator_ns
        CPU time of the servers, of the forked child, of the operator; with load the source's is
        not only the move's.
    rate_before, rate_during
        Requests a second of the load; 0 without.
    busy_ns, generator_ns
        CPU time of the source and of the load generator per request before the move.
    """

    trial: Trial
    duration_s: float
    source_ns: float
    target_ns: float
    child_ns: float
    operator_ns: float
    rate_before: float = 0.0
    rate_during: float = 0.0
    busy_ns: float = 0.0
    generator_ns: float = 0.0


class Pair:
    """Two servers in cluster mode, of which the first has all slots. Use as a context manager.

    Raises
    ------
    EngineError
        They don't start, or don't see each other.
    """

    def __init__(self, binary: Path, cores: Sequence[int]) -> None:
        self.nodes = [
            EngineProcess(
                binary,
                cores=[core],
                config={
                    "cluster-enabled": "yes",
                    "cluster-config-file": "nodes.conf",
                    "cluster-port": str(free_port()),
                },
            )
            for core in cores
        ]
        self._stack = ExitStack()
        self.clients: list[RespClient] = []
        self.ids: list[str] = []
        self.cores = list(cores)
        self.first_slot = 0
        """The first that the source still has: each trial moves the next ones."""

    def __enter__(self) -> Pair:
        try:
            for node in self.nodes:
                self._stack.enter_context(node)
            self.clients = [
                self._stack.enter_context(RespClient(node.address("tcp"))) for node in self.nodes
            ]
            self._join()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _join(self) -> None:
        source, target = self.nodes
        port = target.config("cluster-port")
        self.clients[0].command("CLUSTER", "MEET", "127.0.0.1", target.port, port)
        self.clients[0].command("CLUSTER", "ADDSLOTS", *range(SLOTS))
        deadline = time.monotonic() + _JOIN_S
        while not all(
            word in str(client.command("CLUSTER", "INFO"))
            for client in self.clients
            for word in ("cluster_known_nodes:2", "cluster_state:ok")
        ):
            if time.monotonic() > deadline:
                raise EngineError(f"{source.binary.name}: two nodes didn't form a cluster.")
            time.sleep(0.05)
        self.ids = [str(client.command("CLUSTER", "MYID")) for client in self.clients]


def two_cores() -> list[int]:
    """Where source and target run.

    Raises
    ------
    InputError
        This process may use one core only.
    """
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise InputError("migration: found one core; valid is two or more.")
    return cores


def measure(pair: Pair, trial: Trial) -> Measured:
    """Fill, move, count.

    Raises
    ------
    EngineError
        A server fails, keys are missing afterwards, or the move doesn't end.
    """
    for client in pair.clients:
        client.command("FLUSHALL")
    slots = range(pair.first_slot, pair.first_slot + trial.slots)
    _fill(pair.clients[0], trial, slots)
    time.sleep(0.2)
    if not trial.loaded:
        return _with_child(pair, lambda: _move(pair, trial, slots))
    # Any key whose slot stays: slots that move are the first ones.
    name = next(n for n in range(10**6) if _load_slot(n) >= SLOTS * 3 // 4)
    load = Conditions(command="get", keys=1, clients=LOAD_CLIENTS)
    pair.clients[0].command("SET", _load_key(name), "x" * 16)
    address, source = pair.nodes[0].address("tcp"), pair.nodes[0].pid
    with LoadGenerator(
        load, address, first_key=name, cores=[pair.cores[1]], longest_s=2 * _MOVE_S
    ) as generator:
        time.sleep(_LOAD_WARM_S)
        first, cpu = generator.snapshot(), process_cpu_ns(source)
        time.sleep(_BEFORE_S)
        second, cpu = generator.snapshot(), process_cpu_ns(source) - cpu
        after: list[LoadSnapshot] = []

        def move() -> Measured:
            moved = _move(pair, trial, slots)
            after.append(generator.snapshot())
            return moved

        found = _with_child(pair, move)
    generating = sum(b.since(a).cpu_ns for a, b in zip(first.usage, second.usage, strict=True))
    before = second.counters["requests"] - first.counters["requests"]
    during = after[0].counters["requests"] - second.counters["requests"]
    return replace(
        found,
        rate_before=before / (second.time_ns - first.time_ns) * 1e9,
        rate_during=during / (after[0].time_ns - second.time_ns) * 1e9,
        busy_ns=cpu / before,
        generator_ns=generating / before,
    )


def _load_key(name: int) -> str:
    return f"key:{name:012d}"


def _load_slot(name: int) -> int:
    return slot_of(_load_key(name).encode())


def _fill(client: RespClient, trial: Trial, slots: range) -> None:
    """Keys of random letters, which don't compress, in these slots."""
    value = b64encode(os.urandom(trial.value_bytes)).decode()[: trial.value_bytes]
    missing = set(slots)
    number = 0
    while missing:
        slot = slot_of(b"%d" % number)
        if slot in missing:
            missing.discard(slot)
            tag = f"{{{number}}}".ljust(_KEY_BYTES, "k")
            client.command("EVAL", _FILL, 1, tag, value, trial.keys)
        number += 1


def _move(pair: Pair, trial: Trial, slots: range) -> Measured:
    pids = [node.pid for node in pair.nodes]
    cpu = [process_cpu_ns(pid) for pid in pids]
    own = time.thread_time_ns()
    start = time.monotonic()
    if trial.method == "atomic":
        _move_atomic(pair, slots)
    else:
        _move_keys(pair, trial, slots)
    duration_s = time.monotonic() - start
    own = time.thread_time_ns() - own
    source_ns, target_ns = (process_cpu_ns(p) - c for p, c in zip(pids, cpu, strict=True))
    pair.first_slot += trial.slots
    found = pair.clients[1].command("DBSIZE")
    if found != trial.slots * trial.keys:
        raise EngineError(f"moving {trial}: the target holds {found} keys.")
    return Measured(
        trial=trial,
        duration_s=duration_s,
        source_ns=source_ns,
        target_ns=target_ns,
        child_ns=0.0,
        operator_ns=own,
    )


def _with_child(pair: Pair, move: Callable[[], Measured]) -> Measured:
    """A move with the CPU time of the source's child, which counts when it has been waited for."""
    before = _children_ns(pair)
    found = move()
    if found.trial.method != "atomic":
        return found
    time.sleep(0.3)
    return replace(found, child_ns=_children_ns(pair) - before)


def _children_ns(pair: Pair) -> float:
    lines = pair.clients[0].info("cpu").splitlines()
    return 1e9 * sum(float(line.split(":")[1]) for line in lines if "_children:" in line)


def _move_keys(pair: Pair, trial: Trial, slots: range) -> None:
    source, target = pair.clients
    port = pair.nodes[1].port
    for slot in slots:
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", pair.ids[0])
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", pair.ids[1])
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, trial.pipeline):
            assert isinstance(keys, list)
            names = [str(key) for key in keys]
            source.command("MIGRATE", "127.0.0.1", port, "", 0, 60000, "KEYS", *names)
        target.command("CLUSTER", "SETSLOT", slot, "NODE", pair.ids[1])
        source.command("CLUSTER", "SETSLOT", slot, "NODE", pair.ids[1])


def _move_atomic(pair: Pair, slots: range) -> None:
    source = pair.clients[0]
    known = set(_jobs(source))
    source.command(
        "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slots[0], slots[-1], "NODE", pair.ids[1]
    )
    deadline = time.monotonic() + _MOVE_S
    while True:
        job = next(job for name, job in _jobs(source).items() if name not in known)
        if job["state"] == "success":
            return
        if job["state"] in ("failed", "canceled") or time.monotonic() > deadline:
            raise EngineError(f"CLUSTER MIGRATESLOTS: {job['state']}: {job['message']}")
        time.sleep(_POLL_S)


def _jobs(client: RespClient) -> dict[str, dict[str, Any]]:
    """Jobs of a node by their names."""
    jobs: Any = client.command("CLUSTER", "GETSLOTMIGRATIONS")
    each = [dict(zip(job[::2], job[1::2], strict=True)) for job in jobs]
    return {job["name"]: job for job in each}
