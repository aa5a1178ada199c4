"""What is installed of forecache itself: compiled code, extras, a place to keep things."""

import importlib.metadata
import re
import time
from collections.abc import Mapping
from typing import Any

from forecache.models.advice.cases import load_cases
from forecache.models.prediction.run_length import window
from forecache.models.prediction.simulation import pilot_run, run, times_of
from forecache.sim.cache_folders import cache_folder
from forecache.sim.errors import ForecacheError
from forecache.sim.installing import install_command
from forecache.sim.native.toolchain import FOLDERS, ROOT, compiler, is_current

from .abilities import Ability

_PS_PER_S = 10**12
SPEED_S = 1.0
"""How long the simulation's speed is measured."""

_SCENARIO = {
    "host": "graviton3-c7g.4xlarge",
    "engine": "valkey",
    "engine_version": "9.1",
    "io_threads": 8,
    "workload": {
        "arrival": "closed_loop",
        "clients": 650,
        "mix": {"get": 0.8, "set": 0.2},
        "keys": 3_000_000,
        "key_bytes": 16,
        "value_bytes": 512,
        "popularity": "uniform",
    },
}
"""One point of examples/quickstart.yaml."""

_REQUESTS = 100_000
_NOT_FOR_USERS = ("dev", "benchmark", "docs")
_USES = {
    "engine": "study and observe without a server of your own",
    "parquet": "sweep --out",
    "dask": "sweep --scheduler",
    "compression": "zstd and lz4 in plan",
    "explore": "explore",
    "paper": "reports as PDF",
    "frames": "to_frame of results",
    "notebook": "results in notebooks",
}
_GET_COMPILER = f"apt-get install gcc (or pip install ziglang), then {install_command()} again"


def simulation_speed(*, duration_s: float = SPEED_S) -> float:
    """Requests that the compiled node simulates in a second, of the quickstart with 8 threads.

    Raises
    ------
    OSError
        The compiled code is missing and can't be built.
    """
    [(case, system)] = load_cases(_SCENARIO)
    inputs = system.inputs(case.scenario)
    times = times_of(inputs)
    span = window(inputs, pilot_run(inputs, times, seed=1), requests=_REQUESTS)
    requests, replication = 0.0, 0
    start_s = time.perf_counter()
    while (elapsed_s := time.perf_counter() - start_s) < duration_s:
        replication += 1
        found = run(
            inputs,
            requests=_REQUESTS,
            seed=1,
            replication=replication,
            times=times,
            window_ps=span,
        )
        # Those of the warm-up are simulated too.
        requests += found.throughput_rps * span.end_ps / _PS_PER_S
    return requests / elapsed_s


def compiled_ability(*, measure: bool = True) -> Ability:
    """The compiled simulation, and how fast it is."""
    built = all(is_current(ROOT / folder) for folder in FOLDERS)
    try:
        if not built:
            compiler()
        speed_rps = simulation_speed() if measure else None
    except (OSError, ForecacheError) as error:
        return Ability(
            id="compiled_code",
            title="compiled code",
            status="no",
            found="missing, and can't be built",
            helps="every verb",
            get=_GET_COMPILER,
            values={"refusal": str(error)},
        )
    speed = "" if speed_rps is None else f"{speed_rps / 1e6:.2g} M simulated requests/s"
    return Ability(
        id="compiled_code",
        title="compiled code",
        status="yes",
        found=speed or "built",
        helps="every verb",
        values={"was_built": built, "simulated_requests_per_s": speed_rps},
    )


def extras(requirements: list[str]) -> dict[str, tuple[str, ...]]:
    """The packages of each extra that is for users, from the requirements of a distribution."""
    found: dict[str, tuple[str, ...]] = {}
    for requirement in requirements:
        package = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"""extra\s*==\s*['"]([\w-]+)['"]""", requirement)
        if package and extra and extra[1] not in _NOT_FOR_USERS:
            found[extra[1]] = (*found.get(extra[1], ()), package.group())
    return found


def extras_ability() -> Ability:
    """Which extras are installed."""
    try:
        requirements = importlib.metadata.requires("forecache") or []
    except importlib.metadata.PackageNotFoundError:
        requirements = []
    if not requirements:
        return Ability(
            id="extras",
            title="extras",
            status="unknown",
            found="forecache is used without being installed",
            helps="see docs/install.md",
            get=install_command(),
        )
    installed = {
        extra: {package: _version(package) for package in packages}
        for extra, packages in extras(requirements).items()
    }
    here = [extra for extra, packages in installed.items() if all(packages.values())]
    lacking = [extra for extra in installed if extra not in here]
    uses = "; ".join(f"{extra}: {_USES[extra]}" for extra in lacking if extra in _USES)
    get = install_command(*lacking) + (f" ({uses})" if uses else "")
    return Ability(
        id="extras",
        title="extras",
        status="limited" if lacking else "yes",
        found=("" if lacking else f"all {len(here)}: ") + (", ".join(here) or "none"),
        helps="study, sweep, plan",
        get=get if lacking else "",
        values={"packages": installed},
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def cache_ability() -> Ability:
    """Where what is slow to make is kept, and how much of it there is."""
    folder = cache_folder(".")
    if folder is None:
        return Ability(
            id="cache_folder",
            title="cache folder",
            status="no",
            found="no folder can be written",
            helps="speed of cluster runs",
            get="XDG_CACHE_HOME=FOLDER, or a home that can be written",
        )
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    values: Mapping[str, Any] = {"path": folder, "size_bytes": sum(sizes), "files": len(sizes)}
    return Ability(
        id="cache_folder",
        title="cache folder",
        status="yes",
        found=f"{sum(sizes) / 2**20:.1f} MiB in {len(sizes)} files, writable",
        helps="speed of cluster runs",
        values=values,
    )
