"""Nodes of small clusters on this machine stop, and how long the others take to notice and elect.

The study `failover-predicted` writes what is predicted of every trial (`failover.py` of
clusters; nothing is fitted) before `failover` stops nodes and reads the logs of the others.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.servers import EngineProcess
from forecache.models.over_time.cluster.failover import fail_over, rules_for
from forecache.models.over_time.cluster.slots import SLOTS
from forecache.sim.errors import EngineError

from ..harness import Asked, Files
from ..markdown import table, with_section
from . import rounds
from .footprint_check import free_bus_port
from .trials import kept

FOLDER = Path("docs/accuracy/failover")
PREDICTED, MEASURED = FOLDER / "predicted.json", FOLDER / "trials.json"
PAGE = Path("docs/fleet.md")
REPEATS, DRAWS = 8, 400
TIMEOUT_S = 4.0
_FORMING_S, _LONGEST_S, _POLL_S = 30.0, 40.0, 0.25
_SETTLE_TIMEOUTS = 2.0

_TIME = re.compile(r"\d+:[A-Z] (\d+ \w+ \d{4} \d\d:\d\d:\d\d\.\d{3}) (.*)")
_SUSPECTED = re.compile(r"NODE (\w{40}) .*possibly failing")
_DECLARED = re.compile(r"Marking node (\w{40}) .*as failing \(quorum reached\)")
_WON = "Failover election won"
_TIMES = ("first suspicion", "first FAIL", "last FAIL", "last election")


@dataclass(frozen=True)
class Trial:
    """A cluster, and what of it stops at once.

    Attributes
    ----------
    primaries, replicas
        Of the cluster, and of each primary.
    stop, stop_replicas
        How many primaries stop, and of how many others a replica does.
    silent
        Whether processes are frozen and keep their connections (SIGSTOP), as if their hosts were
        gone, or are killed (SIGKILL), so that connections to them are refused.
    """

    engine: str
    primaries: int
    replicas: int
    stop: int
    stop_replicas: int = 0
    silent: bool = True

    @property
    def name(self) -> str:
        """In words."""
        also = f" and {self.stop_replicas} replica" if self.stop_replicas else ""
        what = f"{self.stop} of {self.primaries} primaries{also}"
        return f"{what}, {self.replicas} replica each, {'frozen' if self.silent else 'killed'}"


TRIALS = (
    Trial("redis-7.0.15", 3, 1, 1),
    Trial("redis-7.0.15", 5, 1, 2),
    Trial("redis-7.0.15", 3, 2, 1, stop_replicas=1, silent=False),
    Trial("valkey-8.1.1", 5, 1, 2),
    Trial("valkey-9.1.2", 5, 1, 2),
    Trial("valkey-9.1.2", 3, 1, 2),
    Trial("valkey-8.1.1", 5, 1, 2, silent=False),
)
"""The last but one leaves no majority."""


def predict(trial: Trial) -> dict[str, list[float | None]]:
    """Mean, and 5th and 95th percentile of each time; None where it never comes."""
    name, _, version = trial.engine.partition("-")
    rules = rules_for(
        name, version, primaries=trial.primaries, replicas=trial.replicas, node_timeout_s=TIMEOUT_S
    )
    drawn = []
    for seed in range(DRAWS):
        found = fail_over(rules, trial.stop, replicas=trial.stop_replicas, seed=seed)
        declared = [*found.failed_s, *found.replicas_failed_s]
        drawn.append(
            (found.suspected_s, min(declared), max(declared), float(found.recovered_s.max()))
        )
    columns = np.array(drawn).T
    return {
        what: [_finite(value) for value in (np.mean(each), *np.quantile(each, (0.05, 0.95)))]
        for what, each in zip(_TIMES, columns, strict=True)
    }


def _finite(value: float) -> float | None:
    return round(float(value), 3) if np.isfinite(value) else None


def predicted(_asked: Asked) -> Files:
    """What is predicted of every trial."""
    found = [{**asdict(trial), "predicted": predict(trial)} for trial in TRIALS]
    return {PREDICTED: json.dumps(found, indent=1) + "\n"}


# --- live -------------------------------------------------------------------------------------


@contextmanager
def _cluster(binary: Path, trial: Trial) -> Iterator[list[EngineProcess]]:
    """A running cluster: primaries first, then the replicas of each in turn."""
    config = {
        "cluster-enabled": "yes",
        "cluster-node-timeout": str(round(1000 * TIMEOUT_S)),
        "logfile": "node.log",
        # What is suspected is told on this level only, by Redis.
        "loglevel": "debug" if trial.engine.startswith("redis") else "notice",
    }
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(EngineProcess(binary, config=config, port=free_bus_port()))
            for _ in range(trial.primaries * (1 + trial.replicas))
        ]
        clients = [stack.enter_context(RespClient(node.address("tcp"))) for node in nodes]
        for number, client in enumerate(clients[: trial.primaries]):
            first, last = (SLOTS * each // trial.primaries for each in (number, number + 1))
            client.command("CLUSTER", "ADDSLOTSRANGE", first, last - 1)
            client.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in nodes[1:]:
            clients[0].command("CLUSTER", "MEET", "127.0.0.1", node.port)
        _wait(clients, lambda text: f"cluster_known_nodes:{len(nodes)}" in text)
        for number, client in enumerate(clients[trial.primaries :]):
            own = clients[number // trial.replicas].command("CLUSTER", "MYID")
            client.command("CLUSTER", "REPLICATE", str(own))
        _wait(clients, lambda text: "cluster_state:ok" in text)
        deadline = time.monotonic() + _FORMING_S
        while any(
            "master_link_status:up" not in client.info("replication")
            for client in clients[trial.primaries :]
        ):
            if time.monotonic() > deadline:
                raise EngineError("the cluster's replicas don't synchronise in time.")
            time.sleep(_POLL_S)
        time.sleep(_SETTLE_TIMEOUTS * TIMEOUT_S)
        yield nodes


def _wait(clients: Sequence[RespClient], holds: Any) -> None:
    deadline = time.monotonic() + _FORMING_S
    while not all(holds(str(client.command("CLUSTER", "INFO"))) for client in clients):
        if time.monotonic() > deadline:
            raise EngineError("the cluster doesn't form in time.")
        time.sleep(_POLL_S)


def measure(binary: Path, trial: Trial, rng: np.random.Generator) -> dict[str, float | None]:
    """Stop nodes of a cluster, and read from the logs of the others when they notice.

    Raises
    ------
    EngineError
        A server fails, or the cluster doesn't form.
    """
    with _cluster(binary, trial) as nodes:
        time.sleep(float(rng.uniform(0.0, 1.0)))
        stopped = nodes[: trial.stop]
        first = trial.primaries + trial.stop * trial.replicas
        stopped += nodes[first : first + trial.stop_replicas]
        others = [node for node in nodes if node not in stopped]
        begun_s = time.time()
        for node in stopped:
            os.kill(node.pid, signal.SIGSTOP if trial.silent else signal.SIGKILL)
        logs = [node.folder / "node.log" for node in others]
        majority = trial.primaries - trial.stop >= trial.primaries // 2 + 1
        deadline = time.monotonic() + (_LONGEST_S if majority else 4.0 * TIMEOUT_S)
        while time.monotonic() < deadline:
            time.sleep(_POLL_S)
            if sum(_WON in log.read_text(errors="replace") for log in logs) == trial.stop:
                break
        found = read_logs([log.read_text(errors="replace") for log in logs], begun_s)
        for node in stopped:
            os.kill(node.pid, signal.SIGKILL)
    return found


def read_logs(texts: Sequence[str], begun_s: float) -> dict[str, float | None]:
    """When nodes were suspected, declared failed and replaced, in seconds from a time on.

    None where they were not.
    """
    suspected: list[float] = []
    declared: dict[str, float] = {}
    won: list[float] = []
    for text in texts:
        for line in text.splitlines():
            match = _TIME.match(line)
            if match is None:
                continue
            at_s = datetime.strptime(match[1], "%d %b %Y %H:%M:%S.%f").timestamp() - begun_s
            if at_s < 0:
                continue
            if _SUSPECTED.search(match[2]):
                suspected.append(at_s)
            elif (failed := _DECLARED.search(match[2])) is not None:
                declared[failed[1]] = min(at_s, declared.get(failed[1], np.inf))
            elif _WON in match[2]:
                won.append(at_s)
    times = (
        min(suspected, default=np.inf),
        min(declared.values(), default=np.inf),
        max(declared.values(), default=np.inf),
        max(won, default=np.inf),
    )
    return dict(zip(_TIMES, map(_finite, times), strict=True))


def artefact(asked: Asked) -> Files:
    """All trials, or those of some engines or numbers; the others stay."""
    found = kept(MEASURED)
    rng = np.random.default_rng(int(os.environ.get("SEED", "1")))
    with rounds.engines_at_hand() as (_, engines):
        for number, trial in enumerate(TRIALS):
            if asked.only and not {trial.engine, str(number)} & set(asked.only):
                continue
            binary = rounds.engine_of(engines, trial.engine).server
            seen = []
            for repeat in range(REPEATS):
                asked.progress(f"{trial.engine}: {trial.name}, {repeat + 1} of {REPEATS}")
                seen.append(measure(binary, trial, rng))
            found[str(number)] = {**asdict(trial), "measured": seen}
    return {MEASURED: json.dumps(found, indent=1) + "\n"}


# --- page -------------------------------------------------------------------------------------


def pages() -> Files:
    """The page with a table of all trials."""
    return {PAGE: with_section(PAGE, "failover", lines())}


def lines() -> list[str]:
    """Measured beside predicted."""
    header = [
        "engine",
        "what stops",
        "",
        ">predicted, s",
        ">90% of runs",
        ">measured, s",
        ">inside",
    ]
    rows = []
    measured = kept(MEASURED)
    for number, each in enumerate(json.loads(PREDICTED.read_text())):
        seen = measured.get(str(number), {}).get("measured", [])
        trial = Trial(**{name: each[name] for name in Trial.__dataclass_fields__})
        for what, (mean, low, high) in each["predicted"].items():
            times = [run[what] for run in seen]
            rows.append(
                [
                    *((trial.engine, trial.name) if what == _TIMES[0] else ("", "")),
                    what,
                    *(_seconds(mean), f"{_seconds(low)} to {_seconds(high)}" if mean else "–"),
                    _seconds(None if None in times else float(np.mean(times))) if times else "–",
                    f"{sum(_inside(time_s, low, high) for time_s in times)} of {len(times)}",
                ]
            )
    return table(header, rows)


def _inside(time_s: float | None, low: float | None, high: float | None) -> bool:
    if time_s is None or low is None or high is None:
        return time_s is low is high
    return low <= time_s <= high


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f}"
