"""The demand of a plan, as the nodes of today tell it; how each field is known, and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forecache.models.footprint.schema import MemoryScenario, Strings
from forecache.models.plan.billed import KnownField
from forecache.models.plan.results import FromInfo, TodaysLoad
from forecache.sim.errors import InputError

from .commands import Placed, placed
from .nodes import TodaysNode, nodes_of
from .settings import persistence_of, threads_of, tls_of
from .sizes import MOST_KEY_BYTES, Sizes, Traffic, sizes_of, value_bytes_in_memory

KEY_BYTES, VALUE_BYTES = 16, 512
"""Taken where nothing tells them."""

RARE = 1.0 / 2048.0
"""Shares below it are not simulated."""

SEEN = 0.002
"""Of the main thread's time, what slow commands must take to be simulated, which takes long: of a
node that is 80% busy fewer than 1% of the requests wait for less."""

_NAMED = 4
"""Commands that a sentence names."""


@dataclass
class _Notes:
    """What is found out on the way."""

    known: list[KnownField] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def found(self, name: str, value: Any, how: str) -> Any:
        """Keep how a field is known."""
        self.known.append(KnownField(name, value, how))
        return value


def read_today(files: Sequence[str | Path]) -> FromInfo:
    """The demand that some nodes tell of.

    Parameters
    ----------
    files
        Texts of nodes, as `replies.py` describes them; each primary once or several times, whose
        later looks then tell the rates.

    Raises
    ------
    InputError
        A file can't be read or is damaged, no primary is among the nodes, or nothing was asked of
        them.
    """
    nodes = nodes_of(files)
    primaries = [node for node in nodes if not node.last.replica]
    if not primaries:
        raise InputError(
            f"{nodes[0].file}: found role slave in all files; valid are the files of primaries, "
            "which know what is written and read."
        )
    notes = _Notes()
    shards = _shards(primaries, notes)
    factor = shards / len(primaries)
    demand = _demand(primaries, factor, notes)
    today = _today(primaries, shards, notes)
    _tell_of_replicas(nodes, notes)
    _tell_of_health(primaries, notes)
    notes.unknown += [
        "on which instance the nodes run: INFO does not say (--host does)",
        "which keys are popular: requests are taken to spread evenly (popularity)",
        "growth and zones: none is taken for the first, 3 for the second",
    ]
    return FromInfo(
        nodes=[_load_of(node) for node in nodes],
        demand=demand,
        today=today,
        known=notes.known,
        unknown=notes.unknown,
    )


def _shards(primaries: Sequence[TodaysNode], notes: _Notes) -> int:
    """Primaries of the cache: those of the files, or as many as CLUSTER INFO says."""
    first = primaries[0]
    sizes = [node.cluster["cluster_size"] for node in primaries if "cluster_size" in node.cluster]
    size = int(sizes[0]) if sizes and sizes[0].isascii() and sizes[0].isdigit() else 0
    count = len(primaries)
    if first.last.text("cluster_enabled") == "1" and not size:
        notes.unknown.append(
            f"how many primaries the cluster has: CLUSTER INFO is missing, {count} are taken"
        )
    if count < size <= 1000:
        notes.unknown.append(
            f"what the other {size - count} primaries do: they are taken to be like the {count} of "
            "the files"
        )
        count = size
    return notes.found("today.shards", count, "CLUSTER INFO" if size == count else "files")


def _demand(primaries: Sequence[TodaysNode], factor: float, notes: _Notes) -> dict[str, Any]:
    """Fields of `demand`."""
    first = primaries[0]
    asked = _asked(primaries, notes)
    seconds = sum(node.span_s for node in primaries) / len(primaries)
    how = _how_long(primaries)
    operations: dict[str, Any] = {}
    keys_a_command = _keys_a_command(primaries, asked, notes)
    for name in sorted(asked.calls, key=lambda each: -asked.calls[each]):
        if asked.calls[name] < RARE * asked.total:
            notes.unknown.append(f"what {name} takes, which is too rare to be simulated")
            continue
        rate = _rounded(factor * sum_rate(primaries, name))
        known = keys_a_command.get(name)
        operations[name] = rate if known is None else {"a_second": rate, "keys": known}
    notes.found("demand.operations", operations, f"commandstats, {how}")
    demand: dict[str, Any] = {"operations": operations}
    mean = sum(placed(node.counts).total / node.span_s for node in primaries)
    peak = sum(max(node.peak_rps(), placed(node.counts).total / node.span_s) for node in primaries)
    demand["peak_to_mean"] = notes.found(
        "demand.peak_to_mean",
        min(1000.0, max(1.0, _rounded(peak / mean))),
        "instantaneous_ops_per_sec, and rates between looks, against the mean",
    )
    notes.unknown.append("the busiest minutes of a day, unless a look was taken then")
    sizes = _sizes(primaries, asked, keys_a_command, notes)
    demand |= _data(primaries, factor, sizes, notes)
    clients = max(_clients(node) for node in primaries)
    demand["clients_per_node"] = notes.found(
        "demand.clients_per_node", clients, "connected_clients; not all of them need be in use"
    )
    slow = _slow(asked, seconds * len(primaries), notes)
    if slow is not None:
        demand["slow_command"] = notes.found(
            "demand.slow_command", slow, "commandstats of commands that run a millisecond or more"
        )
    tls = tls_of(first, notes.unknown)
    if tls:
        demand["tls"] = notes.found("demand.tls", True, "tls-port, and no other")
    kept = persistence_of(primaries, notes.unknown)
    demand["persistence"] = notes.found("demand.persistence", kept, "CONFIG and INFO persistence")
    return demand


def sum_rate(primaries: Sequence[TodaysNode], operation: str) -> float:
    """Operations a second of all primaries together."""
    return sum(placed(node.counts).calls.get(operation, 0.0) / node.span_s for node in primaries)


def _asked(primaries: Sequence[TodaysNode], notes: _Notes) -> Placed:
    """All commands of all primaries, placed; tells of those that plans don't know."""
    counts: dict[str, tuple[float, float]] = {}
    for node in primaries:
        for name, (calls, time_us) in node.counts.items():
            before = counts.get(name, (0.0, 0.0))
            counts[name] = before[0] + calls, before[1] + time_us
    asked = placed(counts)
    if not asked.total:
        where = "between the looks" if primaries[0].compared else "since the start"
        raise InputError(
            f"{primaries[0].file}: found no command of clients {where}; valid is a time in which "
            "they asked for something."
        )
    other_us = 1.0 - asked.known_us / asked.time_us if asked.time_us > 0 else 0.0
    for commands, words in (
        (asked.alike, "what these commands of one key take; they count as GET or SET"),
        (asked.unknown, "what these commands take, which are not modelled; they count as GET"),
    ):
        share = sum(commands.values()) / asked.total
        if share >= 0.001:
            most = sorted(commands, key=lambda name: -commands[name])[:_NAMED]
            notes.unknown.append(
                f"{words}: {', '.join(most)} ({share:.1%} of the commands; all that are not GET, "
                f"SET, MGET, MSET take {other_us:.0%} of the execution time)"
            )
    return asked


def _keys_a_command(
    primaries: Sequence[TodaysNode], asked: Placed, notes: _Notes
) -> dict[str, int]:
    """Keys of one MGET and of one MSET, where they are asked for."""
    found: dict[str, int] = {}
    calls = asked.calls
    if "mget" in calls:
        read = sum(
            (node.grown("keyspace_hits") or 0.0) + (node.grown("keyspace_misses") or 0.0)
            for node in primaries
        )
        keys = round((read - calls.get("get", 0.0)) / calls["mget"])
        if asked.only_known and 1 <= keys <= 10_000:
            found["mget"] = keys
            notes.found("demand.operations.mget.keys", keys, "hits and misses beside those of GET")
        else:
            found["mget"] = 10
            notes.unknown.append("keys of one MGET: 10 are taken")
    if "mset" in calls:
        found["mset"] = found.get("mget", 10)
        notes.unknown.append(f"keys of one MSET: {found['mset']} are taken")
    return found


def _sizes(
    primaries: Sequence[TodaysNode], asked: Placed, keys_a_command: dict[str, int], notes: _Notes
) -> Sizes:
    """Sizes by traffic; those of keys are assumed where it doesn't tell."""

    def total(name: str) -> float:
        return sum(node.grown(name) or 0.0 for node in primaries)

    hits, misses = total("keyspace_hits"), total("keyspace_misses")
    found = hits / (hits + misses) if hits + misses else 1.0
    if found < 0.99:
        notes.unknown.append(
            f"what a miss costs: {1.0 - found:.0%} of the look-ups find nothing; all are predicted "
            "as if they did"
        )
    sizes = Sizes(None, None)
    if asked.only_known:
        received = total("total_net_input_bytes") - total("total_net_repl_input_bytes")
        sent = total("total_net_output_bytes") - total("total_net_repl_output_bytes")
        sizes = sizes_of(Traffic(asked.calls, keys_a_command, found, received, sent))
    key_bytes = sizes.key_bytes
    if key_bytes is None:
        key_bytes = KEY_BYTES
        notes.unknown.append(f"the size of keys: {KEY_BYTES} bytes are taken")
    else:
        notes.found("demand.key_bytes", key_bytes, "bytes of requests")
    if sizes.value_bytes is not None:
        notes.found("demand.value_bytes", sizes.value_bytes, "bytes of replies")
    return Sizes(min(key_bytes, MOST_KEY_BYTES), sizes.value_bytes)


def _data(
    primaries: Sequence[TodaysNode], factor: float, sizes: Sizes, notes: _Notes
) -> dict[str, Any]:
    """Keys, their sizes, and what lies in memory."""
    key_bytes = sizes.key_bytes or KEY_BYTES
    databases = [each for node in primaries for each in node.last.databases]
    keys, expires = sum(d.keys for d in databases), sum(d.expires for d in databases)
    in_memory = None
    if keys:
        in_memory = _in_memory(primaries[0], key_bytes)
    value_bytes = sizes.value_bytes
    if value_bytes is None:
        value_bytes = in_memory
        if in_memory is None:
            value_bytes = VALUE_BYTES
            notes.unknown.append(f"the size of values: {VALUE_BYTES} bytes are taken")
        else:
            notes.found("demand.value_bytes", value_bytes, "memory in use a key")
    found: dict[str, Any] = {
        "keys": notes.found("demand.keys", max(1, round(factor * keys)), "keyspace"),
        "key_bytes": key_bytes,
        "value_bytes": value_bytes,
    }
    if in_memory is not None:
        strings = {
            "type": "string",
            "keys": found["keys"],
            "key_bytes": key_bytes,
            "value_bytes": in_memory,
            "ttl": _rounded(expires / keys),
        }
        found["data"] = [strings]
        notes.found("demand.data", [strings], "used_memory, as if all keys held strings")
    return found


def _in_memory(node: TodaysNode, key_bytes: int) -> int | None:
    """The size of values with which the node would use as much memory as it does."""
    engine, version = node.last.engine
    databases = node.last.databases
    keys, expires = sum(d.keys for d in databases), sum(d.expires for d in databases)
    if not keys:
        return None
    strings = Strings(
        type="string", keys=keys, key_bytes=key_bytes, value_bytes=1, ttl=expires / keys
    )
    scenario = MemoryScenario(
        engine=engine,
        engine_version=version,
        cluster=False,
        clients=_clients(node),
        commands=min(500, len(node.last.commands)),
        replicas=min(64, int(node.last.number("connected_slaves") or 0)),
        data=[strings],
    )
    return value_bytes_in_memory(scenario, node.last.needed("used_memory"))


def _today(primaries: Sequence[TodaysNode], shards: int, notes: _Notes) -> dict[str, Any]:
    """Fields of `today`."""
    kinds = {node.last.engine for node in primaries}
    engine, version = primaries[0].last.engine
    if len(kinds) > 1:
        words = ", ".join(sorted(f"{name} {number}" for name, number in kinds))
        notes.unknown.append(f"one version: the nodes run {words}; {engine} {version} is taken")
    replicas = max(int(node.last.number("connected_slaves") or 0) for node in primaries)
    return {
        "engine": notes.found("today.engine", engine, "INFO"),
        "engine_version": notes.found("today.engine_version", version, "INFO"),
        "shards": shards,
        "replicas": notes.found("today.replicas", min(5, replicas), "connected_slaves"),
        "io_threads": notes.found(
            "today.io_threads", threads_of(primaries[0], notes.unknown), "CONFIG GET"
        ),
    }


def _slow(asked: Placed, seconds: float, notes: _Notes) -> dict[str, Any] | None:
    """Commands that run long, as the one that a plan has."""
    if not asked.slow:
        return None
    calls = sum(count for count, _ in asked.slow.values())
    duration_ms = sum(spent_us for _, spent_us in asked.slow.values()) / calls / 1e3
    every_s = seconds / calls
    words = ", ".join(sorted(asked.slow)[:_NAMED])
    busy = duration_ms / 1e3 / every_s
    if busy < SEEN:
        notes.unknown.append(
            f"what {words} take from other commands: {busy:.2%} of the time, which no p99 sees; "
            "they are left out"
        )
        return None
    if duration_ms >= 900.0 * every_s or duration_ms > 60_000 or every_s > 86_400:
        notes.unknown.append(f"what {words} take from other commands, which is left out")
        return None
    return {"duration_ms": _rounded(duration_ms), "every_s": _rounded(every_s)}


def _tell_of_replicas(nodes: Sequence[TodaysNode], notes: _Notes) -> None:
    replicas = [node for node in nodes if node.last.replica]
    asked = sum(placed(node.counts).calls.get("get", 0.0) / node.span_s for node in replicas)
    if asked >= 1.0:
        notes.unknown.append(
            f"how {asked:,.0f} reads a second of {len(replicas)} replicas would be served: plans "
            "read from primaries only, and these are not in the demand"
        )


def _tell_of_health(primaries: Sequence[TodaysNode], notes: _Notes) -> None:
    """What stands in the replies and that plans don't take up."""
    findings = sorted({finding for node in primaries for finding in node.findings})
    if findings:
        notes.unknown.append(f"what follows from the memory doctor's {', '.join(findings)}")
    for node in primaries:
        worst = max(node.slow, key=lambda entry: entry.time_us, default=None)
        if worst is not None and worst.time_us >= 1000.0:
            notes.unknown.append(
                f"how often it comes as in the slow log of {node.name}: {worst.command} ran "
                f"{worst.time_us / 1e3:.3g} ms there"
            )
        spent_us = placed(node.counts).time_us
        slot = max(node.slots, key=lambda each: node.slots[each], default=None)
        if slot is not None and not node.compared and node.slots[slot] > 0.05 * spent_us > 0:
            notes.unknown.append(
                f"how slot {slot} of {node.name} would be divided: it has "
                f"{min(1.0, node.slots[slot] / spent_us):.0%} of the execution time"
            )
    if any(node.refused for node in primaries):
        words = sorted({command for node in primaries for command in node.refused})
        notes.unknown.append(f"what the nodes refused to tell: {', '.join(words)}")
    evicted = sum(node.grown("evicted_keys") or 0.0 for node in primaries)
    if evicted:
        notes.unknown.append(
            f"how much data there would be without eviction: {evicted:,.0f} keys were evicted"
        )


def _load_of(node: TodaysNode) -> TodaysLoad:
    rate = placed(node.counts).total / node.span_s
    return TodaysLoad(
        name=node.name,
        role="replica" if node.last.replica else "primary",
        rate_rps=rate,
        peak_rps=max(rate, node.peak_rps()),
        used_memory_bytes=node.last.needed("used_memory"),
        keys=sum(each.keys for each in node.last.databases),
    )


def _clients(node: TodaysNode) -> int:
    """The most connections that any look tells of, less those of replicas."""
    connected = max(look.number("connected_clients") or 1.0 for look in node.looks)
    return int(min(100_000, max(1, connected)))


def _how_long(primaries: Sequence[TodaysNode]) -> str:
    seconds = sum(node.span_s for node in primaries) / len(primaries)
    span = f"{seconds:,.0f} s" if seconds < 7200 else f"{seconds / 3600:,.0f} hours"
    if primaries[0].compared:
        return f"between looks {span} apart"
    return f"since the start {span} ago, or the last CONFIG RESETSTAT"


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
