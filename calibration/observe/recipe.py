"""A shell script that observes an engine on a machine where forecache can't be installed.

It needs a POSIX shell, the engine with its `-cli`, and a benchmark tool, and uses perf and taskset
where they are. `recipe.sh` is the script without what is asked for, which stands in it as `@name@`;
`import_recipe` reads the folder it fills.
"""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from shlex import quote

from forecache.hwprofiles import HostProfile
from forecache.hwprofiles.pmu import list_pmus

from ..bundle.points import CLOCK_POINTS, Conditions
from ..drive.connection import Address
from .tools import MEMTIER_FIRST_KEY, tool_command, unsupported

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
        if given.transport == "tcp" and unsupported(Path(name), given) is None
    ]
    driven.sort(key=lambda given: given.data_set)
    memtier = name == "memtier_benchmark"
    lines = [_point(number, given, name) for number, given in enumerate(driven, start=1)]
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


def _point(number: int, given: Conditions, tool: str) -> str:
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
