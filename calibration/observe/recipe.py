"""A shell script that observes an engine where forecache can't be installed, and what it leaves.

It needs a POSIX shell, the engine with its `-cli`, and a benchmark tool, and uses perf and taskset
where they are. `recipe.sh` is the script without what is asked for, which stands in it as `@name@`;
`import_recipe` reads the folder it fills, as a bundle.
"""

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from shlex import quote

from forecache import __version__
from forecache.hwprofiles import HostProfile
from forecache.hwprofiles.files import parse, read_text, read_yaml
from forecache.hwprofiles.pmu import list_pmus, pmu_of
from forecache.sim.errors import InputError

from ..bundle.bundle import RECIPE_FILE, Bundle, Engine, Manifest, Method, ObservedMachine
from ..bundle.points import CLOCK_POINTS, Conditions, ObservedPoint, Repetition
from ..bundle.profiles import Profile
from ..drive.connection import Address
from ..drive.loadgen import LoadResult
from ..drive.proc import ThreadUsage
from ..drive.servers import EngineThread
from .measure import CorePlan, plan_cores, repetition_of
from .profilers.attribution import Attribution, Stages
from .profilers.perf import counter_values
from .readers.info import engine_record, info_fields
from .readers.lines import Place, shown
from .readers.perf import read_perf_script, read_perf_stat
from .spinning import Shares, Waiting, by_role, samples_of, shares_of
from .tools import (
    MEMTIER_FIRST_KEY,
    parse_benchmark_csv,
    parse_memtier_json,
    tool_command,
    why_unsupported,
)

FORMAT = "forecache-recipe/1"
# Stand for what the shell fills in: the number of requests, and the file for a result in JSON.
_NUMBER = 987_654_321
_JSON_FILE = "result.json"


def recipe(
    points: Sequence[Conditions], *, tool: str, engine: str | None, host: HostProfile | None = None
) -> str:
    """The script.

    Parameters
    ----------
    points
        What to measure; those that the tool can't drive, or that need another transport than TCP,
        are left out.
    tool
        A benchmark tool; `forecache` takes the one that comes with the engine.
    engine
        Name or path of the server on that machine; None takes redis-server.
    host
        Profile of that machine, for the hardware counters of its processor.
    """
    server = engine or "redis-server"
    family = "valkey" if "valkey" in Path(server).name else "redis"
    name = f"{family}-benchmark" if tool == "forecache" else tool
    driven = [
        given
        for given in points
        if given.transport == "tcp" and why_unsupported(Path(name), given) is None
    ]
    driven.sort(key=lambda given: given.data_set)
    memtier = name == "memtier_benchmark"
    lines = [_point_call(number, given, name) for number, given in enumerate(driven, start=1)]
    filled_in = {
        "minutes": max(1, round(len(driven) * 4 / 60)),
        "engine": server,
        "bench": name,
        "cli": f"{family}-cli",
        "events": " ".join(f"-e {event}" for event in _events(host)),
        "first_key": MEMTIER_FIRST_KEY if memtier else 0,
        "pilot": 2_000 if memtier else 20_000,
        "format": FORMAT,
        "tool": name,
        "points": "\n".join(lines),
    }
    script = files(__package__).joinpath("recipe.sh").read_text(encoding="utf-8")
    for placeholder, text in filled_in.items():
        script = script.replace(f"@{placeholder}@", str(text))
    return script


def _events(host: HostProfile | None) -> list[str]:
    """The events of a host's processor as perf takes them, or those that every perf knows."""
    if host is not None:
        for pmu in list_pmus().values():
            if host.microarchitecture.startswith(pmu.title):
                return pmu.perf_events()
    return ["cycles", "instructions", "cache-misses", "branch-misses"]


def _point_call(number: int, given: Conditions, tool: str) -> str:
    """One call of `point`."""
    address = Address(port=_NUMBER)
    each = given.clients if tool == "memtier_benchmark" else 1
    words = tool_command(
        Path(tool), given, address, requests=_NUMBER * each, json_file=Path(_JSON_FILE)
    )[1:]
    value = "v" * int(given.value_bytes)
    shell = {str(_NUMBER): '"$n"', value: '"$value"', _JSON_FILE: '"$at/result.json"'}
    shown = [shell.get(word, quote(word)) for word in words]
    shown[shown.index("-p") + 1] = '"$port"'
    profiled = given.model_copy(update={"role": "fit"}) in CLOCK_POINTS
    conditions = json.dumps(given.model_dump(mode="json", exclude_defaults=True))
    return " ".join(
        [
            "point",
            f"{number:03d}",
            quote(conditions),
            "profile" if profiled else "plain",
            str(given.io_threads),
            str(given.keys),
            str(int(given.value_bytes)),
            str(each),
            f"'{' '.join(shown)}'",
        ]
    )


# --- the folder that the script filled ------------------------------------------------------------


_CPU_TIME = re.compile(r"(\d+)m([\d.]+)s")


def import_recipe(folder: Path) -> Bundle:
    """The bundle in a recipe's folder; `host.yaml` may be put beside it."""
    words = _line(folder / RECIPE_FILE).split()
    if len(words) != 2 or words[0] != FORMAT:
        raise InputError(
            f"{folder / RECIPE_FILE}: found {shown(' '.join(words))}; valid is {FORMAT} and a tool."
        )
    tool = words[1]
    cores = Place(str(folder / "nproc.txt"), 1).count(
        _line(folder / "nproc.txt"), "cores", lowest=1, highest=10_000
    )
    engine = _engine(folder)
    stages, warnings = _stages(engine)
    points = []
    profiles = []
    for at in sorted((folder / "points").glob("[0-9]*")):
        point = _point(folder, at, tool, cores=cores)
        points.append(point)
        profiles += _profiles(at / "perf", point.given, stages, read_text(folder / "cpuinfo.txt"))
    if not points:
        raise InputError(f"{folder / 'points'}: found no points; valid is a recipe that ran.")
    host_file = folder / "host.yaml"
    host = parse(HostProfile, read_yaml(host_file), file=host_file) if host_file.is_file() else None
    manifest = Manifest(
        created=_line(folder / "date.txt"),
        forecache_version=__version__,
        elapsed_s=0.0,
        depth="counters" if any(profile.counters for profile in profiles) else "clock",
        engine=engine,
        machine=_machine(folder, cores=cores),
        method=Method(
            tool=tool,
            design="recipe",
            repetitions=max(len(point.repetitions) for point in points),
            warm_up_s=0.0,
            window_s=min(r.duration_s for point in points for r in point.repetitions),
            seed=0,
            generator_receive_bytes=16 * 1024,
        ),
        points=len(points),
        profiles=len(profiles),
        profiling="The recipe ran perf." if profiles else None,
        warnings=warnings,
    )
    # `CONFIG GET *` as the command-line client prints it: a name, then its value.
    lines = read_text(folder / "config.txt").splitlines()
    config = dict(zip(lines[::2], lines[1::2], strict=False))
    return Bundle(folder, manifest, points, config, host, profiles)


def _line(file: Path) -> str:
    """The first line of a small file."""
    lines = read_text(file).splitlines()
    if not lines:
        raise InputError(f"{file}: is empty; valid is one line.")
    return lines[0].strip()


def _engine(folder: Path) -> Engine:
    fields = info_fields(read_text(folder / "server.info"))
    if not {"valkey_version", "redis_version"} & fields.keys():
        raise InputError(f"{folder / 'server.info'}: names no version; valid is INFO of an engine.")
    sha256, _, path = _line(folder / "sha256.txt").partition(" ")
    fields = {**info_fields(read_text(folder / "memory.info")), **fields}
    return engine_record(fields, path=path.strip(), sha256=sha256)


def _stages(engine: Engine) -> tuple[Stages | None, list[str]]:
    """The map of the engine's functions; without one its samples are left aside, with a warning."""
    try:
        return Stages(engine.name, engine.version), []
    except InputError as error:
        return None, [f"samples of the engine are not used: {error}"]


def _machine(folder: Path, *, cores: int) -> ObservedMachine:
    kernel = _line(folder / "uname.txt").split()
    cpu: dict[str, str] = {}
    for line in read_text(folder / "cpuinfo.txt").splitlines():
        name, _, value = line.partition(":")
        cpu.setdefault(name.strip(), value.strip())
    pmu = pmu_of(read_text(folder / "cpuinfo.txt"))
    return ObservedMachine(
        cpu_model=cpu.get("model name") or (pmu.title if pmu else "unknown"),
        kernel=kernel[1] if len(kernel) > 1 else "unknown",
        architecture=kernel[-1] if kernel else "unknown",
        cores_available=cores,
        main_thread_core=0,
        io_thread_cores=[cores - 1],
        generator_cores=[cores - 1],
    )


def _point(folder: Path, at: Path, tool: str, *, cores: int) -> ObservedPoint:
    given_file = at / "given.json"
    try:
        data = json.loads(read_text(given_file))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{given_file}: no JSON ({error}); valid are a point's conditions."
        ) from None
    given = parse(Conditions, data, file=given_file)
    plan = plan_cores(
        io_threads=given.io_threads,
        generator_threads=given.generator_threads,
        allowed=range(cores),
    )
    runs = sorted(run for run in at.iterdir() if run.name.isdecimal())
    if not runs:
        raise InputError(f"{at}: found no repetitions; valid is a recipe that ran to its end.")
    repetitions = [_repetition(run, given, tool, plan) for run in runs]
    info = (runs[-1] / "after.info").relative_to(folder)
    return ObservedPoint(given=given, repetitions=repetitions, info=str(info))


def _repetition(at: Path, given: Conditions, tool: str, plan: CorePlan) -> Repetition:
    started_s, ended_s = (_number(at / f"{when}.uptime") for when in ("before", "after"))
    if ended_s <= started_s:
        raise InputError(f"{at / 'after.uptime'}: found {ended_s:g}; valid is later than before.")
    client = _client(at, tool)
    cpu_s = _children_s(at / "after.times") - _children_s(at / "before.times")
    fields = client.fields() | {
        "duration_s": ended_s - started_s,
        "generator_cpu_ns_per_request": cpu_s * 1e9 / client.requests,
        "generator_utilisation": cpu_s / (ended_s - started_s),
    }
    before, after = (_tasks(at / f"{when}.tasks") for when in ("before", "after"))
    used = {t: usage.since(before[t]) for t, usage in after.items() if t in before}
    if not any(thread.role == "main" for thread in used):
        raise InputError(f"{at / 'after.tasks'}: names no thread of {at / 'before.tasks'}.")
    info = tuple(info_fields(read_text(at / f"{when}.info")) for when in ("before", "after"))
    return repetition_of(
        given,
        fields,
        used,
        (info[0], info[1]),
        plan=plan,
        started_s=started_s,
        waiting=_waiting(at, list(used)),
    )


def _waiting(at: Path, threads: list[EngineThread]) -> Shares | None:
    """Share of waiting of each thread; None where the recipe could not tell."""
    if not (at / "places.txt").is_file():
        return None
    learnt = at.parents[2] / "waiting" / _line(at.parent / "waiting")
    working = by_role(samples_of(read_text(learnt / "working.txt")).places, threads)
    kinds = {}
    for role in working:
        text = read_text(learnt / f"{role}.txt")
        waiting = by_role(samples_of(text).places, threads)[role]
        kind = Waiting.of(waiting, working[role])
        if kind is None:
            return None
        kinds[role] = kind
    return shares_of(kinds, samples_of(read_text(at / "places.txt")), threads)


def _client(at: Path, tool: str) -> LoadResult:
    """What the tool reported."""
    if tool == "memtier_benchmark":
        file = at / "result.json"
        return parse_memtier_json(read_text(file), source=str(file))
    requests = Place(str(at / "requests"), 1).count(_line(at / "requests"), "requests", lowest=1)
    file = at / "bench.out"
    return parse_benchmark_csv(read_text(file), requests=requests, source=str(file))


def _number(file: Path) -> float:
    return Place(str(file), 1).decimal(_line(file), "seconds")


def _children_s(file: Path) -> float:
    """CPU time of the shell's children, the second line that `times` prints."""
    lines = read_text(file).splitlines()
    found = _CPU_TIME.findall(lines[1]) if len(lines) > 1 else []
    if len(found) != 2:
        raise InputError(f"{file}, line 2: valid is the output of `times`, such as 0m1.2s 0m0.3s.")
    at = Place(str(file), 2)
    return sum(at.decimal(m, "minutes") * 60 + at.decimal(s, "seconds") for m, s in found)


def _tasks(file: Path) -> dict[EngineThread, ThreadUsage]:
    """Threads and what they used; the first line is the main thread."""
    found: dict[EngineThread, ThreadUsage] = {}
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        at = Place(str(file), number)
        parts = line.split("|")
        numbers = " ".join(parts[2:]).split()
        if len(parts) < 4 or len(numbers) != 5:
            raise at.wrong(shown(line), valid="id|name|three numbers|two numbers")
        cpu_ns, wait_ns, _, voluntary, involuntary = (at.count(word, "a total") for word in numbers)
        role = "io" if parts[1].startswith("io_thd") else "other" if found else "main"
        thread = EngineThread(at.count(parts[0], "a thread id"), parts[1], role)
        found[thread] = ThreadUsage(cpu_ns, wait_ns, voluntary, involuntary)
    return found


def _profiles(at: Path, given: Conditions, stages: Stages | None, cpuinfo: str) -> list[Profile]:
    """What perf found at a point: CPU time by stage, and counters where there are any."""
    if not at.is_dir():
        return []
    profiles = []
    tool = _line(at / "version.txt")
    requests = Place(str(at / "requests"), 1).count(_line(at / "requests"), "requests", lowest=1)
    if stages is not None and (at / "script.txt").is_file():
        roles = {thread.tid: thread.role for thread in _tasks(at / "after.tasks")}
        samples = read_perf_script(at / "script.txt")
        found = Attribution(stages).add(samples)
        profiles.append(
            Profile(
                profiler="clock",
                tool=tool,
                given=given,
                requests=requests,
                samples=found.samples,
                unattributed=found.unattributed,
                threads=found.threads(roles),  # type: ignore[arg-type]
            )
        )
    if (at / "stat.txt").is_file():
        counts = read_perf_stat(at / "stat.txt")
        if any(count.value is not None for count in counts):
            values = counter_values(counts, requests=requests)
            known = {value.event: value.per_request for value in values if value.per_request}
            pmu = pmu_of(cpuinfo)
            profiles.append(
                Profile(
                    profiler="perf",
                    tool=tool,
                    given=given,
                    requests=requests,
                    counters=values,
                    metrics={} if pmu is None else pmu.derived(known),
                )
            )
    return profiles
