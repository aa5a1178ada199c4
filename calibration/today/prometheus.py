"""Metrics of nodes over time, as redis_exporter or Valkey's exporters name them: looks at INFO.

Read are the JSON of Prometheus' `query` and `query_range`, and the text that exporters serve. Each
time at which a node was asked becomes a look (`nodes.py`) with the fields of INFO that it tells, so
that all that holds for files of INFO holds for a week of metrics too. What came before a restart of
the server is left out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forecache.sim.errors import InputError

from ..observe.readers.lines import Place, shown
from .nodes import Look, TodaysNode

FIELDS = {
    "memory_used_bytes": "used_memory",
    "memory_used_rss_bytes": "used_memory_rss",
    "memory_max_bytes": "maxmemory",
    "config_maxmemory": "maxmemory",
    "config_maxclients": "maxclients",
    "allocator_resident_bytes": "allocator_resident",
    "rdb_last_bgsave_duration_sec": "rdb_last_bgsave_time_sec",
    "rdb_last_cow_size_bytes": "rdb_last_cow_size",
    "replication_backlog_bytes": "repl_backlog_size",
    "replica_resyncs_full": "sync_full",
    "replica_partial_resync_accepted": "sync_partial_ok",
    "connections_received_total": "total_connections_received",
    "commands_processed_total": "total_commands_processed",
    "rejected_connections_total": "rejected_connections",
    "net_input_bytes_total": "total_net_input_bytes",
    "net_output_bytes_total": "total_net_output_bytes",
    "evicted_keys_total": "evicted_keys",
    "keyspace_hits_total": "keyspace_hits",
    "keyspace_misses_total": "keyspace_misses",
    "cpu_sys_seconds_total": "used_cpu_sys",
    "cpu_user_seconds_total": "used_cpu_user",
    "cpu_sys_main_thread_seconds_total": "used_cpu_sys_main_thread",
    "cpu_user_main_thread_seconds_total": "used_cpu_user_main_thread",
}
"""Fields of INFO by names of metrics (oliver006/redis_exporter, exporter.go); others have the name
of their field."""

_TOGETHER = {
    "commands_total": ("cmd", "cmdstat_", "calls", "usec", True, 1.0),
    "commands_duration_seconds_total": ("cmd", "cmdstat_", "calls", "usec", False, 1e6),
    "db_keys": ("db", "", "keys", "expires", True, 1.0),
    "db_keys_expiring": ("db", "", "keys", "expires", False, 1.0),
}
"""Metrics of which two make one field of INFO: the label that tells which, what the field begins
with, the names of both numbers, whether it is the first, and what it is times."""
_NAMESPACES = ("redis_", "valkey_")
_SAMPLE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(-?[0-9.]+(?:[eE][+-]?[0-9]+)?))?"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')

Sample = tuple[str, Mapping[str, str], float, float]
"""Name, labels, time in seconds, value."""


def is_prometheus(text: str) -> bool:
    """Whether a file has metrics, and not INFO."""
    start = text.lstrip()[:4000]
    if start.startswith("{"):
        return '"result' in start and '"data"' in start
    lines = [line for line in start.splitlines()[:50] if line and not line.startswith("#")]
    return any(line.startswith(_NAMESPACES) and " " in line and ":" not in line.split("{")[0]
               for line in lines)  # fmt: skip


def nodes_of_metrics(texts: Sequence[tuple[str, str]]) -> list[TodaysNode]:
    """The nodes that some files have metrics of.

    Parameters
    ----------
    texts
        Of each file its name and what is in it. Files with different metrics of one node belong
        together.

    Raises
    ------
    InputError
        A file is damaged, or has no metrics of a server.
    """
    by_node: dict[str, dict[float, dict[str, str]]] = {}
    labels_of: dict[str, dict[str, str]] = {}
    files: dict[str, str] = {}
    for file, text in texts:
        found = _samples(text, file=file)
        known = 0
        for name, labels, at_s, value in found:
            bare = next((name[len(n) :] for n in _NAMESPACES if name.startswith(n)), None)
            if bare is None:
                continue
            node = labels.get("instance") or labels.get("addr") or Path(file).stem
            files.setdefault(node, file)
            if bare == "instance_info":
                labels_of.setdefault(node, {}).update(labels)
            else:
                known += 1
                _put(by_node.setdefault(node, {}).setdefault(at_s, {}), bare, labels, value)
        if not known and not any(name.endswith("instance_info") for name, *_ in found):
            raise InputError(
                f"{file}: found no metric that begins with redis_ or valkey_; valid are those of "
                "redis_exporter: JSON of query_range, or the text of an exporter."
            )
    nodes = []
    for name, times in by_node.items():
        place = Place(files[name], 1)
        looks = _looks(times, labels_of.get(name, {}), place=place, name=name)
        nodes.append(TodaysNode(name.rpartition("//")[2], files[name], looks))
    return nodes


def _samples(text: str, *, file: str) -> list[Sample]:
    if text.lstrip().startswith("{"):
        return _from_json(text, file=file)
    found: list[Sample] = []
    in_seconds = text.rstrip().endswith("# EOF")  # OpenMetrics; else milliseconds
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line)
        place = Place(file, number)
        if match is None:
            raise place.wrong(shown(line), valid='a metric, as redis_db_keys{db="db0"} 5')
        name, labels, value, when = match.groups()
        at_s = 0.0 if when is None else float(when) / (1.0 if in_seconds else 1e3)
        said = dict(_LABEL.findall(labels or ""))
        found.append((name, said, at_s, _value(value, name, place)))
    return found


def _from_json(text: str, *, file: str) -> list[Sample]:
    place = Place(file, 1)
    try:
        data: Any = json.loads(text)
        result = data["data"]["result"]
        if data.get("status", "success") != "success" or not isinstance(result, list):
            raise KeyError("result")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise place.wrong(
            f"no answer of Prometheus ({shown(str(error))})",
            valid='JSON of query_range: {"status": "success", "data": {"result": [...]}}',
        ) from None
    found: list[Sample] = []
    for series in result:
        try:
            labels = {str(name): str(value) for name, value in series["metric"].items()}
            pairs = series["values"] if "values" in series else [series["value"]]
            name = labels.pop("__name__")
            for at_s, value in pairs:
                found.append((name, labels, float(at_s), _value(str(value), name, place)))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise place.wrong(
                shown(str(series)), valid="a series with a metric, its __name__, and values"
            ) from None
    return found


def _value(text: str, name: str, place: Place) -> float:
    try:
        value = float(text)
    except ValueError:
        raise place.wrong(f"{shown(text)} as {name[:60]}", valid="a number") from None
    return value


def _put(fields: dict[str, str], name: str, labels: Mapping[str, str], value: float) -> None:
    """Add a sample to the fields of INFO at its time."""
    if not math.isfinite(value):
        return
    if name in _TOGETHER:
        label, prefix, first, second, is_first, scale = _TOGETHER[name]
        field = prefix + labels.get(label, "").lower()
        one, _, other = fields.get(field, f"{first}=0,{second}=0").partition(",")
        said = f"{first if is_first else second}={value * scale:.0f}"
        fields[field] = f"{said},{other}" if is_first else f"{one},{said}"
    else:
        fields[FIELDS.get(name, name)] = f"{value:.0f}" if value == round(value) else f"{value:.9g}"


def _looks(
    times: Mapping[float, Mapping[str, str]],
    labels: Mapping[str, str],
    *,
    place: Place,
    name: str,
) -> list[Look]:
    """The looks since the server's last start, the earliest first."""
    version = labels.get("valkey_version") or labels.get("redis_version") or ""
    if not version[:1].isdigit():
        raise InputError(
            f"{place.file}: found no version of {shown(name)}; valid is its metric "
            "redis_instance_info, which has it."
        )
    engine = "valkey" if labels.get("valkey_version") else "redis"
    role = "slave" if labels.get("role") in ("slave", "replica") else "master"
    found: list[Look] = []
    processed, told_uptime = -1.0, False
    for at_s in sorted(times):
        # A database without keys is none to INFO.
        fields = {n: v for n, v in times[at_s].items() if not v.startswith("keys=0,")}
        total = float(fields.get("total_commands_processed", "nan"))
        if math.isnan(total):
            continue  # a time at which only other metrics were asked for
        if total < processed:
            found = []  # started anew
        processed = total
        told_uptime = "uptime_in_seconds" in fields
        said = {
            f"{engine}_version": version,
            "run_id": labels.get("run_id", name),
            "role": role,
            "maxmemory_policy": labels.get("maxmemory_policy", "noeviction"),
            "uptime_in_seconds": fields.get("uptime_in_seconds", f"{max(1.0, at_s):.0f}"),
            **({"server_time_usec": f"{at_s * 1e6:.0f}"} if at_s > 0.0 else {}),
            **fields,
        }
        found.append(Look(place, {n: (place, value) for n, value in said.items()}))
    if len(found) == 1 and not told_uptime:
        raise InputError(
            f"{place.file}: found one time of {shown(name)} and no redis_uptime_in_seconds; valid "
            "is that metric besides, or several times."
        )
    if not found:
        raise InputError(
            f"{place.file}: found no redis_commands_processed_total of {shown(name)}; valid is "
            "that metric besides the others, at the same times."
        )
    return found
