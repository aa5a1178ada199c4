"""What a server says of itself between two looks at INFO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forecache.models.prediction.predict import SERVER_CPU
from forecache.sim.errors import InputError

from ..observe.readers.info import info_fields
from ..observe.readers.lines import Place
from ..today.commands import SAME, is_demand
from .measured import Measured

_OWN_COMMANDS = 1
"""The first INFO itself is counted after its reply."""

_ACTIVE = "used_active_time_main_thread"
_KEYS = "keys="
_COMMAND = "cmdstat_"
_BITS = 8.0


def measured_between(
    before: str, after: str, *, files: tuple[str, str], throughput_rps: float | None = None
) -> Measured:
    """CPU time per command, share of misses, bytes, version and keys, between two texts of INFO.

    Nothing is told about the rate of commands: the looks may be any time apart.

    Parameters
    ----------
    files
        What to call the two in messages.
    throughput_rps
        Measured by the load generator; with it bytes per command become a bandwidth.

    Raises
    ------
    InputError
        A field is missing or damaged, the second look is not after the first, or the server was
        started anew between them.
    """
    first, last = info_fields(before), info_fields(after)
    if first.get("run_id") != last.get("run_id"):
        raise InputError(
            f"{files[1]}: found run_id {last.get('run_id')!r}; valid is {first.get('run_id')!r} "
            f"as in {files[0]}: between the two the server was started anew."
        )

    def delta(name: str) -> float:
        low, high = _number(first, name, files[0]), _number(last, name, files[1])
        if high < low:
            raise InputError(
                f"{files[1]}: found {name} {high:g}; valid is at least {low:g} as in {files[0]}, "
                "which comes before."
            )
        return high - low

    commands = delta("total_commands_processed") - _OWN_COMMANDS
    if commands < 1:
        raise InputError(
            f"{files[1]}: found no command since {files[0]}; valid are two looks with the "
            "measurement between them."
        )
    cpu_s = delta("used_cpu_user") + delta("used_cpu_sys")
    if cpu_s <= 0.0:
        raise InputError(f"{files[1]}: found no CPU time since {files[0]}; valid is some.")
    asked = delta("keyspace_hits") + delta("keyspace_misses")
    sent = max(delta("total_net_output_bytes"), delta("total_net_input_bytes"))
    bandwidth = None
    if throughput_rps is not None:
        bandwidth = sent / commands * throughput_rps * _BITS / 1e9
    return Measured(
        {SERVER_CPU: [cpu_s / commands * 1e6]},
        conditions_of(last, file=files[1]),
        main_active_us=_active_us(delta, first, commands),
        network_gbit_per_s=bandwidth or None,
        miss_share=delta("keyspace_misses") / asked if asked else None,
        command_times_us=_command_times_us(first, last, files=files),
        sources=(f"INFO ({files[0]}, {files[1]})",),
    )


def _command_times_us(
    first: Mapping[str, str], last: Mapping[str, str], *, files: tuple[str, str]
) -> dict[str, float]:
    """Execution time of each command that clients asked for; SETEX and the like are SET.

    Empty if INFO has no commandstats.
    """
    found: dict[str, float] = {}
    for name in last:
        command = name.removeprefix(_COMMAND).lower()
        if not name.startswith(_COMMAND) or not is_demand(command):
            continue
        before_us, after_us = (
            _usec(fields.get(name), name, file)
            for fields, file in zip((first, last), files, strict=True)
        )
        if after_us > before_us:
            command = SAME.get(command, command)
            found[command] = found.get(command, 0.0) + after_us - before_us
    return found


def _usec(text: str | None, name: str, file: str) -> float:
    if text is None:
        return 0.0
    values = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    return Place(file, 0).decimal(values.get("usec", ""), f"usec of {name}", highest=1e20)


def conditions_of(fields: Mapping[str, str], *, file: str) -> dict[str, Any]:
    """Engine, version and number of keys that INFO names.

    Raises
    ------
    InputError
        It names no version, or the line of database 0 is damaged.
    """
    engine = "valkey" if "valkey_version" in fields else "redis"
    version = fields.get(f"{engine}_version", "")
    if not version or not version[0].isdigit() or len(version) > 20:
        raise InputError(
            f"{file}: found {engine}_version {version[:20]!r}; valid is a version, as 8.0.1."
        )
    found: dict[str, Any] = {"engine": engine, "engine_version": version}
    database = fields.get("db0", "")
    if database.startswith(_KEYS):
        text = database.removeprefix(_KEYS).split(",")[0]
        found["workload.keys"] = Place(file, 0).count(text, "keys of db0")
    return found


def _active_us(
    delta: Callable[[str], float], fields: Mapping[str, str], commands: float
) -> float | None:
    """Time of the main thread with something to do, per command; None where INFO has none.

    Unlike its CPU time it leaves out turns that found nothing (newer versions of Valkey).
    """
    if _ACTIVE not in fields:
        return None
    return delta(_ACTIVE) / commands * 1e6 or None


def _number(fields: Mapping[str, str], name: str, file: str) -> float:
    if name not in fields:
        raise InputError(f"{file}: field {name!r} is missing; valid is the whole text of INFO.")
    return Place(file, 0).decimal(fields[name], name)
