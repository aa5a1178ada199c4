"""The demand of a plan, as the nodes of today tell it; how each field is known, and what is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from forecache.models.engines.profile import load_engine
from forecache.models.plan.results import FromInfo, TodaysLoad
from forecache.models.scenario.command_table import COMMANDS, CommandRow
from forecache.sim.errors import InputError

from ..keyspace.groups import KeysHeld
from .commands import ON_COLLECTIONS, Placed, placed
from .data import collections_of, data_of, keys_of, sizes_by_traffic
from .files import Told, read_files
from .findings import hot_slot, latencies_of, slow_command, tell_of_nodes
from .nodes import TodaysNode
from .not_modelled import shares_not_modelled, what_is_needed
from .notes import Notes, rounded
from .settings import persistence_of, threads_of, tls_of
from .sizes import Sizes

RARE = 1.0 / 2048.0
"""Shares below it are not simulated."""

NO_INFO = "operations, connections, persistence, threads and replicas: INFO is missing"
"""What files of keys leave open."""

_NAMED = 4
"""Commands that a sentence names."""

_RANGE, _KEYS = 10, 10
"""Members of one ZRANGE, and keys of one MGET or MSET (assumed)."""


def read_today(
    files: Sequence[str | Path], *, progress: Callable[[str], None] | None = None
) -> FromInfo:
    """The demand that some files tell of.

    Parameters
    ----------
    files
        Texts of nodes, as `replies.py` describes them; each primary once or several times, whose
        later looks then tell the rates. RDB files, and what `--bigkeys` and `--memkeys` print, tell
        of keys; they may be alone, and then the demand has no operations.

    Raises
    ------
    InputError
        A file can't be read or is damaged, no primary is among the nodes, or nothing was asked of
        them.
    """
    told = read_files(files, progress=progress)
    if not told.nodes:
        return _only_keys(told)
    nodes = told.nodes
    primaries = [node for node in nodes if not node.last.replica]
    if not primaries:
        raise InputError(
            f"{nodes[0].file}: found role slave in all files; valid are the files of primaries, "
            "which know what is written and read."
        )
    notes = Notes()
    shards = _shards(primaries, notes)
    factor = shards / len(primaries)
    demand, not_modelled = _demand(primaries, told, factor, notes)
    today = _today(primaries, shards, notes)
    _tell_of_replicas(nodes, notes)
    tell_of_nodes(primaries, notes)
    if told.dumps and told.scans:
        notes.not_used.append("--bigkeys and --memkeys, since RDB files tell the same")
    _tell_of_the_unsaid(notes)
    return FromInfo(
        nodes=[_load_of(node) for node in nodes],
        demand=demand,
        today=today,
        known=notes.known,
        unknown=notes.unknown,
        latencies=latencies_of(primaries),
        not_used=notes.not_used,
        not_modelled=not_modelled,
        needed=notes.needed,
    )


def _only_keys(told: Told) -> FromInfo:
    """What files of keys tell without INFO: neither operations nor how many nodes there are."""
    notes, held = Notes(), told.held
    assert held is not None  # else there would be nodes, or an error
    demand = data_of([], held, told, factor=1.0, sizes=Sizes(None, None), notes=notes)
    demand |= collections_of(held, ON_COLLECTIONS.values(), demand["data"], notes)
    today: dict[str, Any] = {}
    engines = [about.engine for about in told.dumps if about.engine is not None]
    if engines:
        today["engine"], today["engine_version"] = engines[0]
        notes.found("today.engine", engines[0][0], "RDB")
        notes.found("today.engine_version", engines[0][1], "RDB")
    notes.unknown += [NO_INFO, "whether other nodes have more keys: these are taken to be all"]
    _tell_of_the_unsaid(notes)
    return FromInfo(
        *([], demand, today, notes.known, notes.unknown, [], notes.not_used), needed=notes.needed
    )


def _tell_of_the_unsaid(notes: Notes) -> None:
    notes.unknown += [
        "on which instance the nodes run: INFO does not say (--host does)",
        "which keys are popular: requests are taken to spread evenly (popularity)",
        "growth and zones: none is taken for the first, 3 for the second",
    ]


def _shards(primaries: Sequence[TodaysNode], notes: Notes) -> int:
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


def _demand(
    primaries: Sequence[TodaysNode], told: Told, factor: float, notes: Notes
) -> tuple[dict[str, Any], dict[str, float]]:
    """Fields of `demand`, and shares of the execution time that they leave out, by command."""
    first = primaries[0]
    held = keys_of(primaries, told)
    on = _modelled(first, held)
    for node in primaries:
        node.on = on
    asked = _asked(primaries, notes)
    seconds = sum(node.span_s for node in primaries)
    keys_a_command, assumed = _keys_a_command(primaries, asked, notes)
    operations = _operations(primaries, asked, keys_a_command, factor, notes)
    demand: dict[str, Any] = {"operations": operations}
    mean = sum(node.rate_rps for node in primaries)
    peak = sum(max(node.peak_rps(), node.rate_rps) for node in primaries)
    demand["peak_to_mean"] = notes.found(
        "demand.peak_to_mean",
        min(1000.0, max(1.0, rounded(peak / mean))),
        "instantaneous_ops_per_sec, and rates between looks, against the mean",
    )
    notes.unknown.append("the busiest minutes of a day, unless a look was taken then")
    sizes = sizes_by_traffic(primaries, asked, keys_a_command, notes)
    demand |= data_of(primaries, held, told, factor=factor, sizes=sizes, notes=notes)
    if held is not None:
        demand |= collections_of(held, operations, demand["data"], notes)
    clients = max(node.clients for node in primaries)
    demand["clients_per_node"] = notes.found(
        "demand.clients_per_node", clients, "connected_clients; not all of them need be in use"
    )
    slow = slow_command(primaries, asked, seconds, notes)
    hot = hot_slot(primaries, factor, notes)
    demand |= {} if slow is None else {"slow_command": slow}
    demand |= {} if hot is None else {"hot_slot": hot}
    tls = tls_of(first, notes.unknown)
    if tls:
        demand["tls"] = notes.found("demand.tls", True, "tls-port, and no other")
    kept = persistence_of(primaries, notes.unknown)
    demand["persistence"] = notes.found("demand.persistence", kept, "CONFIG and INFO persistence")
    left_out = {*asked.calls.keys() - operations.keys()}
    left_out |= {*asked.slow} if slow is None else set()
    assumed |= {name: n for name in asked.calls if (n := _elements_assumed(COMMANDS[name]))}
    shares, node = max(
        (
            (shares_not_modelled(node, assumed=assumed, left_out=left_out), node)
            for node in primaries
        ),
        key=lambda each: sum(each[0].values()),
    )
    needed = what_is_needed(node, shares, placed=node.placed, keys_known=held is not None)
    if needed:
        notes.needed["demand.operations"] = needed
    return demand, shares


def _modelled(node: TodaysNode, held: KeysHeld | None) -> frozenset[str]:
    """Operations on hashes and sorted sets that a plan with today's engine may have.

    It has to be known what these are like, and what the commands take.
    """
    if held is None:
        return frozenset()
    engine, version = node.last.engine
    try:
        work = load_engine(engine, version).commands
    except InputError:
        return frozenset()
    if not work:
        return frozenset()
    return frozenset(each for each in ON_COLLECTIONS.values() if held.of(COMMANDS[each].type))


def _elements_assumed(row: CommandRow) -> int:
    """Members or fields that one command is taken to have; 0 where that is no question."""
    if row.items not in ("members", "fields"):
        return 0
    return _RANGE if row.touches == "range" else 1


def _operations(
    primaries: Sequence[TodaysNode],
    asked: Placed,
    keys_a_command: dict[str, int],
    factor: float,
    notes: Notes,
) -> dict[str, Any]:
    """Operations a second, those that come most first."""
    found: dict[str, Any] = {}
    for name in sorted(asked.calls, key=lambda each: -asked.calls[each]):
        if asked.calls[name] < RARE * asked.total:
            notes.unknown.append(f"what {name} takes, which is too rare to be simulated")
            continue
        rate, row = rounded(factor * sum_rate(primaries, name)), COMMANDS[name]
        found[name] = rate
        if name in keys_a_command:
            found[name] = {"a_second": rate, "keys": keys_a_command[name]}
        elif (elements := _elements_assumed(row)) > 1:
            found[name] = {"a_second": rate, row.items: elements}
            notes.unknown.append(f"{row.items} of one {name.upper()}: {elements} are taken")
        elif elements:
            notes.unknown.append(f"how much one {name.upper()} sets: one element is taken")
    return notes.found("demand.operations", found, f"commandstats, {_how_long(primaries)}")


def sum_rate(primaries: Sequence[TodaysNode], operation: str) -> float:
    """Operations a second of all primaries together."""
    return sum(node.placed.calls.get(operation, 0.0) / node.span_s for node in primaries)


def _asked(primaries: Sequence[TodaysNode], notes: Notes) -> Placed:
    """All commands of all primaries, placed; tells of those that plans don't know."""
    counts: dict[str, tuple[float, float]] = {}
    for node in primaries:
        for name, (calls, time_us) in node.counts.items():
            before = counts.get(name, (0.0, 0.0))
            counts[name] = before[0] + calls, before[1] + time_us
    asked = placed(counts, on=primaries[0].on)
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
    primaries: Sequence[TodaysNode], asked: Placed, notes: Notes
) -> tuple[dict[str, int], dict[str, int]]:
    """Keys of one MGET and of one MSET, where they are asked for; which of them are assumed."""
    found: dict[str, int] = {}
    assumed: dict[str, int] = {}
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
            found["mget"] = assumed["mget"] = _KEYS
            notes.unknown.append(f"keys of one MGET: {_KEYS} are taken")
    if "mset" in calls:
        found["mset"] = assumed["mset"] = found.get("mget", _KEYS)
        notes.unknown.append(f"keys of one MSET: {found['mset']} are taken")
    return found, assumed


def _today(primaries: Sequence[TodaysNode], shards: int, notes: Notes) -> dict[str, Any]:
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


def _tell_of_replicas(nodes: Sequence[TodaysNode], notes: Notes) -> None:
    replicas = [node for node in nodes if node.last.replica]
    asked = sum(node.placed.calls.get("get", 0.0) / node.span_s for node in replicas)
    if asked >= 1.0:
        notes.unknown.append(
            f"how {asked:,.0f} reads a second of {len(replicas)} replicas would be served: plans "
            "read from primaries only, and these are not in the demand"
        )


def _load_of(node: TodaysNode) -> TodaysLoad:
    rate = node.rate_rps
    return TodaysLoad(
        name=node.name,
        role="replica" if node.last.replica else "primary",
        rate_rps=rate,
        peak_rps=max(rate, node.peak_rps()),
        used_memory_bytes=node.last.needed("used_memory"),
        keys=sum(each.keys for each in node.last.databases),
    )


def _how_long(primaries: Sequence[TodaysNode]) -> str:
    seconds = sum(node.span_s for node in primaries) / len(primaries)
    span = f"{seconds:,.0f} s" if seconds < 7200 else f"{seconds / 3600:,.0f} hours"
    if primaries[0].compared:
        return f"between looks {span} apart"
    return f"since the start {span} ago, or the last CONFIG RESETSTAT"
