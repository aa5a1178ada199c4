"""Full syncs between two real servers on this machine, and loads of the files they write.

The primary has the first core, the replica the second; the primary's child, which writes the data,
may use either of them.
"""

from __future__ import annotations

import os
import time
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path

from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.servers import EngineProcess
from forecache.sim.errors import EngineError

from .load import process_cpu_ns

_SYNC_S, _POLL_S, _SETTLE_S = 60.0, 0.002, 0.3
KEY_BYTES = 16
_A_CALL = 20_000
_FILL = """
for n = tonumber(ARGV[2]), tonumber(ARGV[3]) do
  redis.call('SET', 'key:' .. string.format('%012d', n), ARGV[1])
end
"""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is synchronised: keys of 16 bytes with values that don't compress."""

    keys: int
    value_bytes: int


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one trial took.

    Attributes
    ----------
    sync_s
        From REPLICAOF until the link is up.
    primary_ns, child_ns, replica_ns
        CPU time of the primary, of its child and of the replica during the sync.
    save_s
        A SAVE of the replica, which writes to the page cache.
    load_ns
        CPU time of a server that starts with that file, less that of one without.
    file_bytes
        Size of the file.
    """

    trial: Trial
    sync_s: float
    primary_ns: float
    child_ns: float
    replica_ns: float
    save_s: float
    load_ns: float
    file_bytes: float


def measure(binary: Path, trial: Trial, cores: list[int]) -> Measured:
    """Fill a primary, have an empty replica follow it, save, and start a server with the file.

    Raises
    ------
    EngineError
        A server fails, or the sync doesn't end.
    """
    at_once = {"repl-diskless-sync": "yes", "repl-diskless-sync-delay": "0"}
    with (
        EngineProcess(binary, cores=cores, config=at_once) as primary,
        EngineProcess(binary, cores=[cores[1]]) as replica,
        RespClient(primary.address("tcp")) as source,
        RespClient(replica.address("tcp")) as target,
    ):
        os.sched_setaffinity(primary.pid, [cores[0]])
        _fill(source, trial)
        os.sched_setaffinity(primary.pid, cores)
        time.sleep(_SETTLE_S)
        before = [process_cpu_ns(node.pid) for node in (primary, replica)]
        children = _children_ns(source)
        start = time.monotonic()
        target.command("REPLICAOF", "127.0.0.1", primary.port)
        _wait(target)
        sync_s = time.monotonic() - start
        after = [process_cpu_ns(node.pid) for node in (primary, replica)]
        time.sleep(_SETTLE_S)
        child_ns = _children_ns(source) - children
        target.command("REPLICAOF", "NO", "ONE")
        if target.command("DBSIZE") != trial.keys:
            raise EngineError(f"sync of {trial}: the replica lacks keys.")
        start = time.monotonic()
        target.command("SAVE")
        save_s = time.monotonic() - start
        file = replica.folder / "dump.rdb"
        load_ns = _start_ns(binary, cores[1], replica.folder) - _start_ns(binary, cores[1], None)
        return Measured(
            trial=trial,
            sync_s=sync_s,
            primary_ns=after[0] - before[0],
            child_ns=child_ns,
            replica_ns=after[1] - before[1],
            save_s=save_s,
            load_ns=load_ns,
            file_bytes=file.stat().st_size,
        )


def _fill(client: RespClient, trial: Trial) -> None:
    value = b64encode(os.urandom(trial.value_bytes)).decode()[: trial.value_bytes]
    for first in range(0, trial.keys, _A_CALL):
        last = min(first + _A_CALL, trial.keys) - 1
        client.command("EVAL", _FILL, 0, value, first, last)


def _wait(client: RespClient) -> None:
    deadline = time.monotonic() + _SYNC_S
    while time.monotonic() < deadline:
        try:
            if "master_link_status:up" in client.info("replication"):
                return
        except EngineError:
            pass  # It loads.
        time.sleep(_POLL_S)
    raise EngineError("the replica didn't synchronise in time.")


def _start_ns(binary: Path, core: int, folder: Path | None) -> float:
    """CPU time of a server from its start until it has loaded what is in a folder."""
    config = {} if folder is None else {"dir": str(folder)}
    with EngineProcess(binary, cores=[core], config=config) as server:
        return process_cpu_ns(server.pid)


def _children_ns(client: RespClient) -> float:
    lines = client.info("cpu").splitlines()
    return 1e9 * sum(float(line.split(":")[1]) for line in lines if "_children:" in line)
