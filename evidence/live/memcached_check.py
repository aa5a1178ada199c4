"""Hit rate of real Memcached nodes after a change of their list, against the model.

The study `memcached` starts `memcached` processes on Unix sockets, asks them for keys by Zipf's law
through a small client that stores what it missed, changes the list of nodes (or restarts one) after
some seconds, and compares the hit rate of every second with that of `models/over_time/caching.py`.
Nothing is fitted.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from forecache.models.layouts.slabs import keys_that_fit
from forecache.models.memory.lines import rank_classes
from forecache.models.over_time.caching import (
    Contents,
    Database,
    DatabaseSettings,
    Hashing,
    Tier,
    groups_of,
    ketama_hash,
    ketama_ring,
    share_moved,
)
from forecache.models.scenario.workload import Zipf
from forecache.sim.errors import EngineError

from ..harness import Asked, Files

ARTEFACT = Path("docs/accuracy/memcached.json")

TICK_S = 0.02
"""Time whose keys the client asks for at once; it stores what it missed afterwards."""

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_START_TIMEOUT_S = 5.0
_NO_LIMIT = 1e15
_CLASSES = 64


@dataclass(frozen=True)
class Check:
    """One run.

    Attributes
    ----------
    before, after
        How many nodes the list has; equal ones mean that the last one restarts, empty.
    memory_mib
        Of each node; so much that nothing is evicted without it.
    """

    name: str
    hashing: Hashing
    before: int
    after: int
    memory_mib: int | None = None
    rate_rps: float = 5000.0
    keys: int = 20_000
    zipf: float = 0.99
    value_bytes: int = 500
    change_s: int = 4
    duration_s: int = 14

    @property
    def nodes(self) -> int:
        """How many run."""
        return max(self.before, self.after)

    @property
    def names(self) -> list[str]:
        """What the client calls them."""
        return [f"10.0.0.{node + 1}:11211" for node in range(self.nodes)]

    @property
    def key_bytes(self) -> int:
        """Length of all keys."""
        return len(self.key(0))

    def key(self, rank: int) -> bytes:
        """The key of a rank, counted from 0."""
        return b"forecache:%07d" % rank


CHECKS = (
    Check("3 to 5 nodes, modulo", "modulo", 3, 5),
    Check("3 to 5 nodes, ketama", "ketama", 3, 5),
    Check("9 to 10 nodes, modulo", "modulo", 9, 10),
    Check("9 to 10 nodes, ketama", "ketama", 9, 10),
    Check("one of 3 restarts", "ketama", 3, 3),
    Check("3 to 5 nodes, modulo, a fifth of the keys fits", "modulo", 3, 5, 4, keys=100_000),
)


class Node:
    """A memcached process on a Unix socket, and a connection to it."""

    def __init__(self, binary: str, folder: Path, *, memory_mib: int) -> None:
        self._command = [binary, "-s", str(folder / "socket"), "-m", str(memory_mib), "-t", "1"]
        if os.geteuid() == 0:
            self._command += ["-u", "root"]
        self._path = folder / "socket"
        self._start()

    def _start(self) -> None:
        self._path.unlink(missing_ok=True)
        parent = os.getpid()
        prctl = ctypes.CDLL(None).prctl

        def die_with_parent() -> None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )
        self._socket = socket.socket(socket.AF_UNIX)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                self._socket.connect(str(self._path))
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    self.stop()
                    raise EngineError("memcached did not start on a Unix socket") from None
                time.sleep(0.01)

    def stop(self) -> None:
        """End it."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """End it, and start it empty."""
        self.stop()
        self._start()

    def found(self, keys: Sequence[bytes]) -> set[bytes]:
        """Which of these keys it holds."""
        self._socket.sendall(b"get " + b" ".join(keys) + b"\r\n")
        answer = self._read(b"END\r\n")
        lines = (line for line in answer.split(b"\r\n") if line.startswith(b"VALUE "))
        return {line.split(b" ")[1] for line in lines}

    def store(self, keys: Sequence[bytes], value: bytes) -> None:
        """Store keys, all with the same value."""
        parts = [b"set %s 0 0 %d noreply\r\n%s\r\n" % (key, len(value), value) for key in keys]
        self._socket.sendall(b"".join(parts))

    def statistics(self) -> dict[str, str]:
        """What `stats` says."""
        self._socket.sendall(b"stats\r\n")
        lines = self._read(b"END\r\n").decode().splitlines()
        return dict(line.split(" ", 2)[1:] for line in lines if line.startswith("STAT "))

    def _read(self, end: bytes) -> bytes:
        answer = b""
        while not answer.endswith(end):
            part = self._socket.recv(1 << 16)
            if not part:
                raise EngineError("memcached closed the connection")
            answer += part
        return answer


@contextlib.contextmanager
def running(check: Check) -> Iterator[list[Node]]:
    """The nodes of a check; they are stopped at the end."""
    binary = shutil.which("memcached")
    if binary is None:
        raise EngineError("memcached is not on PATH")
    with tempfile.TemporaryDirectory(prefix="forecache-") as folder:
        nodes: list[Node] = []
        try:
            for number in range(check.nodes):
                own = Path(folder, str(number))
                own.mkdir()
                nodes.append(Node(binary, own, memory_mib=check.memory_mib or 64))
            yield nodes
        finally:
            for node in nodes:
                node.stop()


def owners(check: Check, count: int) -> np.ndarray:
    """(keys,) node of every key, by the length of the list."""
    hashes = np.array([ketama_hash(check.key(rank)) for rank in range(check.keys)])
    if check.hashing == "modulo":
        return hashes % count
    return ketama_ring(check.names[:count]).owners(hashes)


def measure(check: Check, *, seed: int = 1, paced: bool = True) -> dict[str, Any]:
    """Drive real nodes; hits and requests of every second, and what the nodes hold at the end."""
    random = np.random.default_rng(seed)
    weights = np.arange(1, check.keys + 1, dtype=float) ** -check.zipf
    edges = np.cumsum(weights) / weights.sum()
    owner = [owners(check, check.before), owners(check, check.after)]
    value = b"x" * check.value_bytes
    per_tick = round(check.rate_rps * TICK_S)
    ticks = round(check.duration_s / TICK_S)
    hits = np.zeros(check.duration_s)
    asked = np.zeros(check.duration_s)
    with running(check) as nodes:
        _fill(check, nodes, owner[0], edges, random, value)
        changed = False
        begin = time.monotonic()
        for tick in range(ticks):
            second = int(tick * TICK_S + 1e-9)
            if second >= check.change_s and not changed:
                changed = True
                if check.before == check.after:
                    nodes[-1].restart()
            ranks = np.searchsorted(edges, random.random(per_tick))
            hits[second] += _ask(check, nodes, owner[int(changed)], ranks, value)
            asked[second] += per_tick
            late_s = begin + (tick + 1) * TICK_S - time.monotonic()
            if paced and late_s > 0:
                time.sleep(late_s)
        held = [int(node.statistics()["curr_items"]) for node in nodes]
        version = nodes[0].statistics()["version"]
    return {"hits": hits, "asked": asked, "keys_held": held, "version": version}


def _fill(
    check: Check,
    nodes: list[Node],
    owner: np.ndarray,
    edges: np.ndarray,
    random: np.random.Generator,
    value: bytes,
) -> None:
    """Store all keys; where they don't fit, ask until the steady state is reached."""
    if check.memory_mib is None:
        for number, node in enumerate(nodes):
            node.store(
                [check.key(rank) for rank in np.flatnonzero(owner == number).tolist()], value
            )
        return
    for _ in range(3000):
        _ask(check, nodes, owner, np.searchsorted(edges, random.random(100)), value)


def _ask(
    check: Check, nodes: list[Node], owner: np.ndarray, ranks: np.ndarray, value: bytes
) -> int:
    """Ask for keys, store what is missing; returns how many requests found their key."""
    hits = 0
    for number in np.unique(owner[ranks]):
        keys = [check.key(rank) for rank in ranks[owner[ranks] == number].tolist()]
        found = nodes[number].found(keys)
        hits += sum(key in found for key in keys)
        missing = [key for key in dict.fromkeys(keys) if key not in found]
        if missing:
            nodes[number].store(missing, value)
    return hits


def predict(check: Check, asked: np.ndarray) -> dict[str, Any]:
    """The same from the model: share of hits of every second, by the requests in each."""
    lists = [range(check.before), range(check.after)]
    groups = groups_of(lists, hashing=check.hashing, names=check.names)
    capacity = _NO_LIMIT
    if check.memory_mib is not None:
        capacity = keys_that_fit(
            check.memory_mib * 2**20,
            key_bytes=check.key_bytes,
            sizes=[(check.value_bytes, 1.0)],
        )
    contents = Contents(
        rank_classes(check.keys, Zipf(zipf=check.zipf), most=_CLASSES),
        groups,
        capacity_keys=[capacity] * check.nodes,
        requests_per_s=float(asked.mean()),
        duration_s=float(check.duration_s),
    )
    # Nothing waits for the database here; a key is stored half a tick after it was asked for.
    settings = DatabaseSettings(capacity_qps=1e9, latency_ms=1e3 * TICK_S / 2)
    tier = Tier(contents, Database(settings), coalescing=False)
    steps = 20
    shares = []
    for second, requests in enumerate(asked):
        changed = second >= check.change_s
        if second == check.change_s and check.before == check.after:
            contents.clear(check.nodes - 1)
        weights = contents.weights([0.0, 1.0] if changed else [1.0, 0.0])
        by_node = contents.traffic(weights) * requests / steps
        hits = sum(float(tier.step(by_node, weights, 1.0 / steps).hits.sum()) for _ in range(steps))
        shares.append(hits / requests)
    tier.check()
    moved = share_moved(groups, 0, 1)
    return {"shares": shares, "keys_held": contents.keys_held().tolist(), "moved": moved}


def compare(check: Check, *, seed: int = 1, paced: bool = True) -> dict[str, Any]:
    """One run measured and predicted, as the artefact has it."""
    measured = measure(check, seed=seed, paced=paced)
    predicted = predict(check, measured["asked"])
    shares = measured["hits"] / measured["asked"]
    difference = np.abs(np.array(predicted["shares"]) - shares)
    counted_moved = float((owners(check, check.before) != owners(check, check.after)).mean())
    return {
        "check": asdict(check),
        "version": measured["version"],
        "measured_hit_share": [round(float(share), 4) for share in shares],
        "predicted_hit_share": [round(share, 4) for share in predicted["shares"]],
        "measured_keys_moved": round(counted_moved, 4),
        "predicted_keys_moved": round(predicted["moved"], 4),
        "measured_keys_held": measured["keys_held"],
        "predicted_keys_held": [round(held) for held in predicted["keys_held"]],
        "worst_difference": round(float(difference.max()), 4),
        "mean_difference": round(float(difference.mean()), 4),
    }


def artefact(asked: Asked) -> Files:
    """All checks, measured and predicted."""
    checks = []
    for check in CHECKS:
        result = compare(check)
        checks.append(result)
        asked.progress(
            f"{check.name}: hit rate after the change "
            f"{result['measured_hit_share'][check.change_s]:.1%}, predicted "
            f"{result['predicted_hit_share'][check.change_s]:.1%}; worst second off by "
            f"{100 * result['worst_difference']:.1f} points"
        )
    date = datetime.now(UTC).date().isoformat()
    return {ARTEFACT: json.dumps({"date": date, "checks": checks}, indent=1) + "\n"}
