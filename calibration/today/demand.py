"""The demand of a plan, as the nodes of today tell it; how each field is known, and what is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from forecache.models.engines.commands import CommandKind, counted_on
from forecache.models.engines.profile import load_engine
from forecache.models.plan.results import CurrentNode, FromInfo, KnownField
from forecache.models.scenario.command_table import COMMANDS, DESCRIBED_BY, CommandRow
from forecache.models.scenario.workload import WORKLOADS, ValueSizes, sizes_of
from forecache.sim.errors import InputError

from .commands import ON_STRINGS, OperationCounts, operation_counts
from .data import (
    KEY_BYTES,
    LEAST_COMMANDS,
    MOST_VALUE_BYTES,
    Notes,
    Sizes,
    TodaysFiles,
    collections_of,
    data_of,
    four_digits,
    keys_of,
    nearest_size,
    read_files,
    sizes_by_traffic,
)
from .findings import (
    hot_slot,
    latencies_of,
    look_next,
    slow_command,
    tell_of_nodes,
    troubles_of,
)
from .nodes import TodaysNode, main_cpu_s, own_times_of, shares_not_modelled, what_is_needed

RARE = 1.0 / 2048.0
"""Shares below it are not simulated."""

NO_INFO = "operations, connections, persistence, threads and replicas: INFO is missing"
"""What files of keys leave open."""

FEW_CLIENTS = 50
"""Connections that are taken where fewer were seen: of a look when clients had gone these would be
the limit."""

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
        Texts of nodes, as `Reply` describes them, or folders of them; each primary once or several
        times, whose later looks then tell the rates. RDB files, and what `--bigkeys` and
        `--memkeys` print, tell of keys; they may be alone, and then the demand has no operations.
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
    if all(node.last.commands for node in primaries):
        demand, not_modelled = _demand(primaries, told, factor, notes)
        _tell_of_hours(primaries, notes)
    else:
        demand, not_modelled = _without_commands(primaries, told, factor, notes), {}
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
        troubles=troubles_of(nodes),
        look_next=look_next(
            primaries,
            shards=shards,
            keys_told=keys_of(primaries, told) is not None,
            growth_told=any(each.field == _GROWTH for each in notes.known),
        ),
    )


def _only_keys(told: TodaysFiles) -> FromInfo:
    """What files of keys tell without INFO: neither operations nor how many nodes there are."""
    notes, held = Notes(), told.held
    assert held is not None  # else there would be nodes, or an error
    demand = data_of([], held, told, factor=1.0, sizes=Sizes(None, None), notes=notes)
    demand |= collections_of(held, COMMANDS, demand["data"], notes)
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
    primaries: Sequence[TodaysNode], told: TodaysFiles, factor: float, notes: Notes
) -> tuple[dict[str, Any], dict[str, float]]:
    """Fields of `demand`, and shares of the execution time that they leave out, by command."""
    first = primaries[0]
    held = keys_of(primaries, told)
    # Operations that a plan with today's engine may have: those that were counted on it.
    on = ON_STRINGS
    with suppress(InputError):
        on |= {*counted_on(load_engine(*first.last.engine).commands)}
    for node in primaries:
        node.on = on
    asked = _all_operations(primaries, notes)
    seconds = sum(node.span_s for node in primaries)
    keys_a_command, assumed = _keys_a_command(primaries, asked, notes)
    sizes = sizes_by_traffic(primaries, asked, keys_a_command, notes)
    data = data_of(primaries, held, told, factor=factor, sizes=sizes, notes=notes)
    described = {}
    if held is not None:
        described = collections_of(held, asked.calls, data["data"], notes)
    if sizes.value_bytes is None:
        data["value_bytes"] = _no_more_than_traffic(primaries, asked, data, keys_a_command, notes)
    elements = _elements_by_traffic(primaries, asked, data["value_bytes"], described, notes)
    operations = _operations(primaries, asked, keys_a_command, elements, factor, notes)
    if held is None:
        described = _assumed_collections(operations, elements, data, notes)
    asked_of = {DESCRIBED_BY.get(COMMANDS[name].type) for name in operations}
    described = {field: each for field, each in described.items() if field in asked_of}
    demand: dict[str, Any] = {"operations": operations}
    mean = sum(node.rate_rps for node in primaries)
    peak = sum(max(node.peak_rps(), node.rate_rps) for node in primaries)
    demand["peak_to_mean"] = notes.found(
        "demand.peak_to_mean",
        min(1000.0, max(1.0, four_digits(peak / mean))),
        "instantaneous_ops_per_sec, and rates between looks, against the mean",
    )
    notes.unknown.append("the busiest minutes of a day, unless a look was taken then")
    demand |= data | described
    clients = max(node.clients for node in primaries)
    how = "connected_clients; not all of them need be in use"
    if clients < FEW_CLIENTS:
        how = f"assumed: {clients} were seen, and some may have disconnected by then"
    demand["clients_per_node"] = notes.found(
        "demand.clients_per_node", max(clients, FEW_CLIENTS), how
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
    assumed |= {
        name: n
        for name in asked.calls
        if (n := _elements_assumed(COMMANDS[name]))
        and (elements is None or not _is_open(COMMANDS[name], described))
    }
    shares, node = max(
        (
            (shares_not_modelled(node, assumed=assumed, left_out=left_out), node)
            for node in primaries
        ),
        key=lambda each: sum(each[0].values()),
    )
    needed = what_is_needed(node, shares, counts=node.operations)
    if needed:
        notes.needed["demand.operations"] = needed
    return demand, shares


def _without_commands(
    primaries: Sequence[TodaysNode], told: TodaysFiles, factor: float, notes: Notes
) -> dict[str, Any]:
    """What INFO tells without commandstats: the data, and a load whose commands are not known."""
    held = keys_of(primaries, told)
    demand = data_of(
        primaries, held, told, factor=factor, sizes=Sizes(None, None), notes=notes
    )  # fmt: skip
    seconds, how = sum(node.span_s for node in primaries), _how_long(primaries)

    def grown(name: str) -> float:
        return sum(node.grown(name) or 0.0 for node in primaries)

    def tell(field: str, value: str) -> None:
        notes.known.append(KnownField(field, value, how))

    each_s = seconds / len(primaries)
    tell("commands a second", f"{grown('total_commands_processed') / each_s:,.4g}")
    if cpu_s := sum(main_cpu_s(node) or 0.0 for node in primaries):
        tell("main thread busy", f"{cpu_s / seconds:.2%}")
    received, sent = (grown(f"total_net_{way}_bytes") / each_s for way in ("input", "output"))
    tell("network", f"{received:,.0f} B/s in, {sent:,.0f} B/s out")
    if looked_up := grown("keyspace_hits") + grown("keyspace_misses"):
        tell("hits", f"{grown('keyspace_hits') / looked_up:.1%}")
    if all(node.compared for node in primaries):
        tell("memory growth", f"{grown('used_memory') / each_s:,.0f} B/s")
    file = next(node.file for node in primaries if not node.last.commands)
    notes.needed["demand.operations"] = (
        f"{file}: found no line cmdstat_..., so the commands that it served are unknown, and no "
        "capacity, headroom or plan can be given. Give the output of INFO ALL or INFO EVERYTHING, "
        "or a scenario of kind plan with demand.operations."
    )
    return demand


_HOURS = 20
"""Of a day that have to be told."""
_GROWTH = "growth a week"
_DAYS = 3
"""Of looks from which on growth is told."""


def _tell_of_hours(primaries: Sequence[TodaysNode], notes: Notes) -> None:
    """The busiest hour of a day, and growth, where looks span days."""
    if any(look.clock_s is None for node in primaries for look in node.looks):
        return  # uptimes tell no time of the day
    by_hour: dict[int, float] = {}  # since the epoch, of all nodes together
    for node in primaries:
        own: dict[int, list[float]] = {}
        for at_s, rate in node.rates():
            own.setdefault(int(at_s // 3600), []).append(rate)
        for hour, rates in own.items():
            by_hour[hour] = by_hour.get(hour, 0.0) + sum(rates) / len(rates)
    if len(by_hour) < _HOURS or max(by_hour) - min(by_hour) < _HOURS:
        return
    hours: dict[int, list[float]] = {}
    for hour, rate in by_hour.items():
        hours.setdefault(hour % 24, []).append(rate)
    means = {hour: sum(rates) / len(rates) for hour, rates in hours.items()}
    busiest, quietest = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    value = (
        f"{busiest} to {busiest + 1} h UTC, {means[busiest]:,.0f} commands/s on average; "
        f"{means[quietest]:,.0f} from {quietest} to {quietest + 1} h"
    )
    notes.known.append(KnownField("busiest hour of a day", value, "looks, by their clocks"))
    days: dict[int, list[float]] = {}
    for hour, rate in by_hour.items():
        days.setdefault((hour - min(by_hour)) // 24, []).append(rate)
    whole = [sum(rates) / len(rates) for _, rates in sorted(days.items()) if len(rates) >= _HOURS]
    if len(whole) >= _DAYS and min(whole) > 0.0:
        slope = float(np.polyfit(np.arange(len(whole)), np.log(whole), 1)[0])
        share = math.expm1(7.0 * slope)
        notes.known.append(
            KnownField(_GROWTH, f"{share:+.1%}", "means of days; set growth_per_year")
        )


def _elements_assumed(row: CommandRow) -> int:
    """Items that one command is taken to have; 0 where that is no question."""
    if row.items in ("one", "keys", "all"):
        return 0
    return _RANGE if row.touches == "range" else 1


def _elements_by_traffic(
    primaries: Sequence[TodaysNode],
    asked: OperationCounts,
    value_bytes: Any,
    described: Mapping[str, Any],
    notes: Notes,
) -> int | None:
    """Items of one command that replies with several, with which replies are what was sent.

    The same number for all of them, and for collections that are returned whole and of which
    nothing is known. None where no command replies with items, or no number fits.
    """
    value = _mean_of(value_bytes)
    several = [name for name in asked.calls if _is_open(COMMANDS[name], described)]
    sent = [node.grown("total_net_output_bytes") for node in primaries]
    if not several or None in sent:
        return None
    replicated = sum(node.grown("total_net_repl_output_bytes") or 0.0 for node in primaries)

    def replied_bytes(items: int) -> float:
        total = 0.0
        for name, calls in asked.calls.items():
            row, count = COMMANDS[name], items if name in several else 1
            kind = CommandKind(name, value, 1.0, count)
            if (field := DESCRIBED_BY.get(row.type)) is not None:
                like = WORKLOADS[row.type].model_validate(described.get(field, {}))
                if row.items == "all" and name not in several:
                    count = like.size
                size, value_bytes = max(count, like.size), like.field_value_bytes
                kind = CommandKind(name, value_bytes, 1.0, count, size, like.item_bytes)
            total += calls * kind.reply_bytes
        return total

    found = nearest_size(replied_bytes, sum(each or 0.0 for each in sent) - replicated, 1, 10_000)
    if found is not None:
        names = ", ".join(name.upper() for name in several[:_NAMED])
        notes.unknown.append(
            f"how many items {names} return: {found} each are taken, with which replies are as "
            "many bytes as were sent"
        )
    return found


def _mean_of(value_bytes: Any) -> int:
    sizes = sizes_of(TypeAdapter(ValueSizes).validate_python(value_bytes))
    return round(sum(size * share for size, share in sizes))


def _no_more_than_traffic(
    primaries: Sequence[TodaysNode],
    asked: OperationCounts,
    data: Mapping[str, Any],
    keys_a_command: Mapping[str, int],
    notes: Notes,
) -> Any:
    """The size of values in memory, or the largest with which traffic is no more than it was.

    Some keys may be far larger than those that are asked for: a bitmap of many megabytes is one
    key, and what reads and writes its bits sends some bytes.
    """
    mean = _mean_of(data["value_bytes"])
    most: list[int] = []
    for counter, replicated, ways in (
        ("total_net_output_bytes", "total_net_repl_output_bytes", "reply"),
        ("total_net_input_bytes", "total_net_repl_input_bytes", "request"),
    ):
        seen = [node.grown(counter) for node in primaries]
        if None in seen or asked.total < LEAST_COMMANDS:
            continue
        over = sum(each or 0.0 for each in seen)
        over -= sum(node.grown(replicated) or 0.0 for node in primaries)
        if ways == "reply":
            over /= max(0.01, _hit_share(primaries))  # a miss brings no value
        if not any(_carries_values(COMMANDS[name], ways) for name in asked.calls):
            continue

        def carried(value: int, ways: str = ways) -> float:
            total = 0.0
            for name, calls in asked.calls.items():
                row = COMMANDS[name]
                held = value if _carries_values(row, ways) else 1
                kind = CommandKind(name, held, 1.0, keys_a_command.get(name, 1))
                each = kind.reply_bytes if ways == "reply" else kind.request_bytes(KEY_BYTES)
                total += calls * each
            return total

        fits = nearest_size(carried, over, 0, MOST_VALUE_BYTES)
        most.append(0 if fits is None and carried(0) > over else MOST_VALUE_BYTES)
        if fits is not None:
            most[-1] = fits
    if not most or min(most) >= mean:
        return data["value_bytes"]
    notes.known[:] = [each for each in notes.known if each.field != "demand.value_bytes"]
    return notes.found(
        "demand.value_bytes", min(most), "at most, by bytes sent and received; keys are larger"
    )


def _hit_share(primaries: Sequence[TodaysNode]) -> float:
    """Share of the look-ups that find something; 1 where none are counted."""
    hits, misses = (
        sum(node.grown(name) or 0.0 for node in primaries)
        for name in ("keyspace_hits", "keyspace_misses")
    )
    return hits / (hits + misses) if hits + misses > 0.0 else 1.0


def _carries_values(row: CommandRow, ways: str) -> bool:
    """Whether a request or a reply has a whole value of a string in it."""
    return row.values == ("get" if ways == "reply" else "set")


def _is_open(row: CommandRow, described: Mapping[str, Any]) -> bool:
    """Whether a command replies with a number of items that nothing but bytes tells."""
    if row.items in ("one", "keys") or not row.returned:
        return False
    return row.items != "all" or DESCRIBED_BY[row.type] not in described


def _assumed_collections(
    operations: Mapping[str, Any], elements: int | None, data: dict[str, Any], notes: Notes
) -> dict[str, Any]:
    """What collections are like where nothing tells of types: their keys are as many of all keys as
    operations are on them, and those that are returned whole have as many items as replies say.
    """
    rates = {
        name: each["a_second"] if isinstance(each, dict) else each
        for name, each in operations.items()
    }
    found: dict[str, Any] = {}
    for data_type, field in DESCRIBED_BY.items():
        asked = [name for name in rates if COMMANDS[name].type == data_type]
        if not asked:
            continue
        share = sum(rates[name] for name in asked) / sum(rates.values())
        like: dict[str, Any] = {"keys": max(1, round(share * data["keys"]))}
        default = WORKLOADS[data_type]()
        if elements is not None:
            whole = any(COMMANDS[name].items == "all" for name in asked)
            like[default.items] = elements if whole else max(elements, default.size)
        found[field] = like
        words = WORKLOADS[data_type].model_validate(like)
        notes.unknown.append(
            f"what {field.replace('_', ' ')} are like: {words.keys:,} of {words.size:,} "
            f"{default.items} are taken"
        )
    return found


def _operations(
    primaries: Sequence[TodaysNode],
    asked: OperationCounts,
    keys_a_command: dict[str, int],
    elements_a_command: int | None,
    factor: float,
    notes: Notes,
) -> dict[str, Any]:
    """Operations a second, those that come most first."""
    found: dict[str, Any] = {}
    for name in sorted(asked.calls, key=lambda each: -asked.calls[each]):
        if asked.calls[name] < RARE * asked.total:
            notes.unknown.append(f"what {name} takes, which is too rare to be simulated")
            continue
        each_s = sum(n.operations.calls.get(name, 0.0) / n.span_s for n in primaries)
        rate, row = four_digits(factor * each_s), COMMANDS[name]
        found[name] = rate
        if name in keys_a_command:
            found[name] = {"a_second": rate, "keys": keys_a_command[name]}
        elif row.items == "keys":
            found[name] = {"a_second": rate, "keys": _KEYS}
            notes.unknown.append(f"keys of one {name.upper()}: {_KEYS} are taken")
        elif elements_a_command is not None and _is_open(row, {}) and row.items != "all":
            found[name] = {"a_second": rate, row.items: elements_a_command}
        elif (elements := _elements_assumed(row)) > 1:
            found[name] = {"a_second": rate, row.items: elements}
            notes.unknown.append(f"{row.items} of one {name.upper()}: {elements} are taken")
        elif elements:
            notes.unknown.append(f"how much one {name.upper()} sets: one element is taken")
    return notes.found("demand.operations", found, f"commandstats, {_how_long(primaries)}")


def _all_operations(primaries: Sequence[TodaysNode], notes: Notes) -> OperationCounts:
    """Operations of all primaries together; notes those that plans don't know."""
    counts: dict[str, tuple[float, float]] = {}
    for node in primaries:
        for name, (calls, time_us) in node.counts.items():
            before = counts.get(name, (0.0, 0.0))
            counts[name] = before[0] + calls, before[1] + time_us
    asked = operation_counts(counts, on=primaries[0].on)
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
    primaries: Sequence[TodaysNode], asked: OperationCounts, notes: Notes
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
        # A hit or a miss of one key each.
        others = (name for name in calls if name != "mget" and not COMMANDS[name].writes)
        one = sum(calls[name] for name in others if "key" in COMMANDS[name].words)
        keys = round((read - one) / calls["mget"])
        if asked.all_known and 1 <= keys <= 10_000:
            found["mget"] = keys
            notes.found("demand.operations.mget.keys", keys, "hits and misses beside others")
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
    asked = sum(node.operations.calls.get("get", 0.0) / node.span_s for node in replicas)
    if asked >= 1.0:
        notes.unknown.append(
            f"how {asked:,.0f} reads a second of {len(replicas)} replicas would be served: plans "
            "read from primaries only, and these are not in the demand"
        )


def _load_of(node: TodaysNode) -> CurrentNode:
    rate = node.rate_rps
    return CurrentNode(
        name=node.name,
        role="replica" if node.last.replica else "primary",
        rate_rps=rate,
        peak_rps=max(rate, node.peak_rps()),
        used_memory_bytes=node.last.needed("used_memory"),
        keys=sum(each.keys for each in node.last.databases),
        times=own_times_of(node, io_threads=threads_of(node, [])),
        isa=_ISAS.get((node.last.text("os") or "").rpartition(" ")[2]),
        system_memory_bytes=node.last.number("total_system_memory"),
    )


_ISAS = {"x86_64": "x86-64", "aarch64": "aarch64"}


def _how_long(primaries: Sequence[TodaysNode]) -> str:
    seconds = sum(node.span_s for node in primaries) / len(primaries)
    span = f"{seconds:,.0f} s" if seconds < 7200 else f"{seconds / 3600:,.0f} hours"
    if primaries[0].compared:
        return f"between looks {span} apart"
    return f"since the start {span} ago, or the last CONFIG RESETSTAT"


# --- settings of the nodes -----------------------------------------------------------------------


FSYNC_MS = 1.0
"""Of an fsync with appendfsync always, where nothing tells it (assumed)."""

_LEAST_CHILD_S = 0.5
"""INFO tells whole seconds."""


def threads_of(node: TodaysNode, unknown: list[str]) -> int:
    """The setting io-threads; 1 where it isn't known."""
    text = node.config.get("io-threads", "")
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 256:
        return int(text)
    unknown.append("io-threads: CONFIG GET is missing or refused; 1 is taken")
    return 1


def tls_of(node: TodaysNode, unknown: list[str]) -> bool:
    """Whether connections are encrypted, by ports that are open."""
    listeners = [
        text for name, (_, text) in node.last.fields.items() if name.startswith("listener")
    ]
    if node.config:
        encrypted = node.config.get("tls-port", "0") not in ("", "0")
        plain = node.config.get("port", "0") not in ("", "0")
    elif listeners:
        encrypted = any("name=tls" in text for text in listeners)
        plain = any("name=tcp" in text for text in listeners)
    else:
        unknown.append("whether connections are encrypted: none is taken")
        return False
    if encrypted and plain:
        unknown.append("how many connections are encrypted: both ports are open; none is taken")
    return encrypted and not plain


def persistence_of(nodes: Sequence[TodaysNode], unknown: list[str]) -> Any:
    """What nodes keep on disk, as the first does."""
    node, kept = nodes[0], dict[str, Any]()
    last = node.last
    if last.number("aof_enabled") or node.config.get("appendonly") == "yes":
        policy = node.config.get("appendfsync")
        kept["aof"] = "always" if policy == "always" else "everysec"
        if policy == "always":
            kept["fsync_ms"] = FSYNC_MS
            unknown.append(f"how long an fsync takes: {FSYNC_MS:g} ms are taken")
        elif policy != "everysec":
            unknown.append(f"appendfsync {policy or ''}".strip() + ": everysec is taken")
    # Until one was made it takes -1 s.
    saved = not (last.text("rdb_last_bgsave_time_sec") or "-").startswith("-")
    child_s = last.number("rdb_last_bgsave_time_sec") if saved else None
    saves = last.number("rdb_saves")
    if node.config.get("save") or child_s is not None:
        if child_s is None:
            unknown.append(
                "how long a snapshot takes: none was made since the start; none is taken"
            )
        elif not saves:
            unknown.append(
                "how often snapshots are made: this version does not count; none is taken"
            )
        else:
            every_s = min(86_400.0, max(1.0, last.time_s / saves))
            kept["snapshot"] = {
                "every_s": every_s,
                "child_s": min(every_s, max(_LEAST_CHILD_S, child_s)),
            }
    return kept or "none"
