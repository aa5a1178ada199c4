"""A sweep of 100,000 points into files: time, memory, and the same bits after it was killed.

python benchmarks/sweep_at_scale.py [--points N] [--kind node|memory] [--only PART ...]

`whole` runs the sweep once, on all cores. `killed` runs it again and kills it three times (SIGKILL,
in the middle of a batch). `dask` runs it on a LocalCluster of two workers and kills one of them
three times. The files of all three must be equal byte for byte. Each part goes on where it was
left, and takes as long as the sweep: for a node, at the nominal numbers, about half an hour of two
cores per 100,000 points.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from forecache.hwprofiles.files import dump_yaml, write_text_atomic

KILLS = 3
PARTS = ("whole", "killed", "dask")
_LOOK_EVERY_S = 0.5

POINTS_WITHOUT_SIZES = 2_000

NODE: dict[str, Any] = {
    "host": {"sweep": ["c7g.large", "c7g.4xlarge", "c8g.4xlarge", "c7i.4xlarge", "c7a.4xlarge"]},
    "engine": "valkey",
    "engine_version": {"sweep": ["7.2", "8.0", "8.1", "9.1"]},
    "io_threads": {"sweep": [1, 2]},
    "workload": {
        "clients": {"sweep": list(range(20, 220, 20))},
        "pipeline": {"sweep": [1, 2, 4, 8, 16]},
        "mix": {"get": 0.8, "set": 0.2},
        "keys": 1_000_000,
    },
}

MEMORY: dict[str, Any] = {
    "kind": "memory",
    "engine": "valkey",
    "engine_version": {"sweep": ["7.2", "8.0", "8.1", "9.1"]},
    "host": {"sweep": ["r7g.large", "r7g.xlarge", "r7g.2xlarge", "r8g.large", "r8g.xlarge"]},
    "data": [
        {
            "type": "string",
            "keys": {"sweep": [n * 1_000_000 for n in range(1, 21)]},
            "key_bytes": {"sweep": [8, 16, 24, 32, 40]},
        }
    ],
}


def scenario(kind: str, points: int) -> dict[str, Any]:
    """A sweep of so many points, a multiple of 2,000: of as many sizes of values as it takes."""
    sizes = {"sweep": [32 + 16 * n for n in range(max(1, points // POINTS_WITHOUT_SIZES))]}
    if kind == "node":
        return NODE | {"workload": NODE["workload"] | {"value_bytes": sizes}}
    return MEMORY | {"data": [MEMORY["data"][0] | {"value_bytes": sizes}]}


class Swept(NamedTuple):
    """A sweep: its scenario, how it is answered, and how many files that makes."""

    file: Path
    kind: str
    batch: int
    files: int

    def command(self, out: Path, *more: str) -> list[str]:
        """`forecache sweep` into a folder."""
        nominal = ["--nominal"] if self.kind == "node" else []
        sweep = [sys.executable, "-m", "forecache", "sweep", str(self.file), "--out", str(out)]
        return [*sweep, "--batch", str(self.batch), *nominal, *more]


def peak_mib(process: int) -> float:
    """The most memory that a process has had; 0 if it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def children_of(process: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    try:
        direct = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [each for child in map(int, direct) for each in (child, *children_of(child))]


def parts(folder: Path) -> int:
    """Files that are there."""
    return len(list(folder.glob("part-*.parquet")))


def run(arguments: Sequence[str], out: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a sweep; from time to time the process and the number of files, until it ends."""
    process = subprocess.Popen(arguments, text=True)
    while process.poll() is None:
        yield process, parts(out)
        time.sleep(_LOOK_EVERY_S)


def whole(sweep: Swept, out: Path, points: int) -> dict[str, Any]:
    """Time and memory of an uninterrupted run; memory early, and at the end."""
    began_s, before = time.perf_counter(), parts(out)
    peaks: list[tuple[int, float, float]] = []
    process = None
    for process, files in run(sweep.command(out), out):
        workers = max(map(peak_mib, children_of(process.pid)), default=0.0)
        peaks.append((files, peak_mib(process.pid), workers))
    seconds = time.perf_counter() - began_s
    assert process is None or process.returncode == 0
    first = next((each for each in peaks if each[0] > before), (0, 0.0, 0.0))
    last = 0, max(each[1] for each in peaks), max(each[2] for each in peaks)
    return {
        "points": points,
        "seconds": round(seconds, 1),
        "points_per_s": round(points / seconds, 2),
        "went_on_from_files": before,
        "mib_of_it_and_a_worker_after_one_file": [round(first[1]), round(first[2])],
        "mib_at_most": [round(last[1]), round(last[2])],
    }


def killed(sweep: Swept, out: Path) -> dict[str, Any]:
    """Kill the sweep with SIGKILL three times on its way, in the middle of a batch, and go on."""
    moments = []
    for share in (0.15, 0.5, 0.85)[:KILLS]:
        before = parts(out)
        target = max(before + 1, int(share * sweep.files))
        if target >= sweep.files:
            continue
        for process, there in run(sweep.command(out, "-q"), out):
            if there >= target:
                time.sleep(random.uniform(0.0, 2.0))
                process.send_signal(signal.SIGKILL)
                process.wait()
        moments.append({"from_files": before, "killed_with_files": parts(out)})
    for _ in run(sweep.command(out), out):
        pass
    return {"kills": moments, "files": parts(out)}


def on_dask(sweep: Swept, out: Path) -> dict[str, Any]:
    """Run on two workers of a LocalCluster, and kill one of them three times on the way."""
    from distributed import LocalCluster

    began_s = time.perf_counter()
    moments: list[int] = []
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        more = ["--scheduler", cluster.scheduler_address]
        for _, there in run(sweep.command(out, *more), out):
            due = len(moments) < KILLS and there >= (len(moments) + 0.5) / KILLS * sweep.files
            worker = cluster.workers[len(moments) % 2].pid
            if due and worker is not None:
                os.kill(worker, signal.SIGKILL)
                moments.append(there)
    seconds = round(time.perf_counter() - began_s, 1)
    return {"seconds": seconds, "worker_killed_with_files": moments, "files": parts(out)}


def same_files(one: Path, other: Path) -> bool:
    """Whether two folders have the same files with the same bytes."""
    names = sorted(path.name for path in one.glob("part-*.parquet"))
    if names != sorted(path.name for path in other.glob("part-*.parquet")):
        return False
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def main() -> None:
    """Run the parts that are asked for and print what was found as JSON."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--points", type=int, default=100_000)
    asked.add_argument("--kind", choices=["node", "memory"], default="node")
    asked.add_argument("--batch", type=int, help="1,000 of a node, 5,000 of memory")
    asked.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    asked.add_argument("--out", type=Path, default=Path("build/sweep_at_scale"))
    given = asked.parse_args()
    folder = given.out / f"{given.kind}-{given.points}"
    file = folder / "scenario.yaml"
    write_text_atomic(file, dump_yaml(scenario(given.kind, given.points)))
    batch = given.batch or (1_000 if given.kind == "node" else 5_000)
    files = -(-given.points // batch)
    sweep = Swept(file, given.kind, batch, files)
    found: dict[str, Any] = {"kind": given.kind, "points": given.points}
    if "whole" in given.only:
        found["whole"] = whole(sweep, folder / "whole", given.points)
    if "killed" in given.only:
        found["killed"] = killed(sweep, folder / "killed")
    if "dask" in given.only:
        found["dask"] = on_dask(sweep, folder / "dask")
    for name in ("killed", "dask"):
        if name in found and parts(folder / "whole") == files:
            found[name]["same_bits"] = same_files(folder / "whole", folder / name)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
