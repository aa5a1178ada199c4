"""What nodes say beside counters: latencies, hot slots, the slow log, settings, the doctor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forecache.models.plan.results import CommandLatency
from forecache.models.scenario.command_table import COMMANDS

from .commands import ALIKE, OPERATIONS, Placed, is_demand
from .data import Notes, rounded
from .nodes import SlowEntry, TodaysNode

SEEN = 0.002
"""Of the main thread's time, what slow commands must take to be simulated, which takes long: of a
node that is 80% busy fewer than 1% of the requests wait for less."""

SLOW_ENTRY_US = 1000.0
"""Entries of the slow log that are shorter keep nobody waiting."""

_LONG = ("range", "all")
_SHORT = {
    *(ALIKE.keys() - {"del"}),
    *(name for name, each in OPERATIONS.items() if COMMANDS[each].touches not in _LONG),
} - {"del", "unlink", "scan"}
"""Commands of one key: a long entry of theirs tells of a pause of the machine."""

HOT_SLOT = 0.01
"""Share of the execution time from which on a slot is hot: an even one has a 16,384th."""

_UNEVEN = 1.2
"""How much busier than the mean a primary may be without a word."""

_MOST_COMMANDS = 6
_NAMED = 4

_FULL = 0.9
"""Share of maxmemory from which on a node that evicts is taken to be full."""

_USED_SETTINGS = frozenset({"io-threads", "tls-port", "port", "appendonly", "appendfsync", "save"})

_LAYOUT_DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "hash-max-{}-entries": ("512",),
    "hash-max-{}-value": ("64",),
    "zset-max-{}-entries": ("128",),
    "zset-max-{}-value": ("64",),
    "set-max-{}-entries": ("128",),
    "set-max-{}-value": ("64",),
    "list-max-{}-size": ("-2",),
    "set-max-intset-entries": ("512",),
    "list-compress-depth": ("0",),
}
"""Settings that decide how collections lie in memory, with what the footprint takes."""


def latencies_of(primaries: Sequence[TodaysNode]) -> list[CommandLatency]:
    """How long the most frequent commands take inside the server, on the slowest node."""
    found: dict[str, CommandLatency] = {}
    for node in primaries:
        for name, quantiles in node.last.latencies_ms.items():
            count = node.last.commands.get(name)
            if count is None or not count.calls or not quantiles or not is_demand(name):
                continue
            this = CommandLatency(name, node.name, count.calls, dict(quantiles))
            before = found.get(name)
            if before is None or _tail(this) > _tail(before):
                found[name] = this
    calls = {name: sum(n.counts.get(name, (0.0, 0.0))[0] for n in primaries) for name in found}
    return sorted(found.values(), key=lambda each: -calls[each.command])[:_MOST_COMMANDS]


def _tail(latency: CommandLatency) -> float:
    return latency.quantiles_ms.get("p99", max(latency.quantiles_ms.values()))


def slow_command(
    primaries: Sequence[TodaysNode], asked: Placed, seconds: float, notes: Notes
) -> dict[str, Any] | None:
    """Commands that run long, as the one that a plan has.

    They are those that run a millisecond and more on average, by commandstats; and of the others
    what the slow log has, where these are the exceptions.

    Parameters
    ----------
    seconds
        In which commandstats were counted, of all nodes together.
    """
    rates = {name: (calls / seconds, us / calls) for name, (calls, us) in asked.slow.items()}
    how = "commandstats of commands that run a millisecond or more" if rates else ""
    logged = _logged(primaries, asked)
    if logged:
        how = f"{how}; the slow log" if how else "the slow log"
    for name, (rate, time_us) in logged.items():
        rates[name] = rate, time_us
    if not rates:
        return None
    rate = sum(each for each, _ in rates.values())
    duration_ms = sum(each * time_us for each, time_us in rates.values()) / rate / 1e3
    busy = rate * duration_ms / 1e3
    words = ", ".join(sorted(rates, key=lambda name: -rates[name][0] * rates[name][1])[:_NAMED])
    if busy < SEEN:
        notes.unknown.append(
            f"what {words} take from other commands: {busy:.2%} of the time, which no p99 sees; "
            "they are left out"
        )
        return None
    if busy >= 0.9 or duration_ms > 60_000 or rate < 1 / 86_400:
        notes.unknown.append(f"what {words} take from other commands, which is left out")
        return None
    found = {"duration_ms": rounded(duration_ms), "every_s": rounded(1.0 / rate)}
    return notes.found("demand.slow_command", found, f"{how}: {words}")


def _logged(primaries: Sequence[TodaysNode], asked: Placed) -> dict[str, tuple[float, float]]:
    """Long commands of the slow logs: how often a second of one node, and how long in us.

    The time that a log tells of is that from its first entry to the look; entries of one command
    only tell a rate if there are two.
    """
    found: dict[str, tuple[float, float]] = {}
    for node in primaries:
        if not node.slow:
            continue
        until_s = max(node.last.clock_s or 0.0, *(entry.at_s for entry in node.slow))
        span_s = until_s - min(entry.at_s for entry in node.slow)
        by_command: dict[str, list[SlowEntry]] = {}
        for entry in node.slow:
            name = entry.command
            long = entry.time_us >= SLOW_ENTRY_US and name not in _SHORT
            if long and is_demand(name) and name not in asked.slow:
                by_command.setdefault(name, []).append(entry)
        for name, entries in by_command.items():
            if len(entries) < 2 or span_s <= 0:
                continue
            rate = len(entries) / span_s / len(primaries)
            time_us = sum(entry.time_us for entry in entries) / len(entries)
            before_rate, before_us = found.get(name, (0.0, 0.0))
            whole = before_rate + rate
            found[name] = whole, (before_rate * before_us + rate * time_us) / whole
    return found


def hot_slot(primaries: Sequence[TodaysNode], factor: float, notes: Notes) -> float | None:
    """Share of the execution time of the busiest slot, where it is more than others have.

    Parameters
    ----------
    factor
        Primaries of the cache for one of `primaries`.
    """
    told = [node for node in primaries if node.slots]
    if not told:
        return None
    # Both since the start: slots that a LIMIT left out are in the times of commands.
    total_us = sum(
        max(sum(node.slots.values()), sum(
            count.time_us for name, count in node.last.commands.items() if is_demand(name)
        ))
        for node in told
    )  # fmt: skip
    node = max(told, key=lambda each: max(each.slots.values()))
    slot = max(node.slots, key=lambda each: node.slots[each])
    if total_us <= 0 or sum(sum(each.slots.values()) for each in told) <= 0:
        return None
    share = node.slots[slot] / total_us * len(told) / len(primaries) / factor
    if share < HOT_SLOT:
        notes.not_used.append(
            f"CLUSTER SLOT-STATS: no slot has more than {share:.1%} of the execution time"
        )
        return None
    how = f"CPU time of slot {slot} of {node.name}, by CLUSTER SLOT-STATS"
    return notes.found("demand.hot_slot", min(0.999, rounded(share)), how)


def tell_of_nodes(primaries: Sequence[TodaysNode], notes: Notes) -> None:
    """What stands in the replies and that plans don't take up."""
    _tell_of_balance(primaries, notes)
    _tell_of_memory(primaries, notes)
    _tell_of_settings(primaries, notes)
    for node in primaries:
        demanded = [entry for entry in node.slow if is_demand(entry.command)]
        worst = max(demanded, key=lambda entry: entry.time_us, default=None)
        if worst is not None and worst.time_us >= SLOW_ENTRY_US:
            notes.not_used.append(
                f"the longest entry in the slow log of {node.name}: {worst.command} ran "
                f"{worst.time_us / 1e3:.3g} ms"
            )
    findings = sorted({finding for node in primaries for finding in node.findings})
    if findings:
        notes.not_used.append(f"what the memory doctor finds: {', '.join(findings)}")
    others = sorted({command for node in primaries for command in node.others})
    if others:
        notes.not_used.append(f"replies to {', '.join(others)}")
    if any(node.refused for node in primaries):
        words = sorted({command for node in primaries for command in node.refused})
        notes.unknown.append(f"what the nodes refused to tell: {', '.join(words)}")


def _tell_of_balance(primaries: Sequence[TodaysNode], notes: Notes) -> None:
    rates = {node.name: node.rate_rps for node in primaries}
    mean = sum(rates.values()) / len(rates)
    busiest = max(rates, key=lambda name: rates[name])
    if rates[busiest] > _UNEVEN * mean:
        notes.unknown.append(
            f"why {busiest} has {rates[busiest] / mean:.2g} times the operations of the mean "
            "primary: plans spread keys evenly, but for a hot slot or key"
        )


def _tell_of_memory(primaries: Sequence[TodaysNode], notes: Notes) -> None:
    """Limits of the memory, and what they do."""
    evicted = sum(node.grown("evicted_keys") or 0.0 for node in primaries)
    if evicted:
        notes.unknown.append(
            f"how much data there would be without eviction: {evicted:,.0f} keys were evicted"
        )
    told = set()
    for node in primaries:
        most = node.last.number("maxmemory") or 0.0
        policy = node.last.text("maxmemory_policy") or "noeviction"
        if most:
            told.add((most, policy))
            full = node.last.needed("used_memory") >= _FULL * most
            if full and policy != "noeviction" and not evicted:
                notes.unknown.append(
                    f"whether {node.name} held more without its maxmemory, which it has reached"
                )
    for most, policy in sorted(told):
        notes.not_used.append(
            f"maxmemory {most / 2**30:.4g} GiB with {policy}: a plan leaves memory_headroom to data"
        )


def _tell_of_settings(primaries: Sequence[TodaysNode], notes: Notes) -> None:
    changed: dict[str, str] = {}
    for node in primaries:
        for pattern, defaults in _LAYOUT_DEFAULTS.items():
            names = dict.fromkeys(pattern.format(kind) for kind in ("listpack", "ziplist"))
            name = next((each for each in names if each in node.config), None)
            if name is not None and node.config[name] not in defaults:
                changed[name] = node.config[name]
    if changed:
        words = ", ".join(f"{name} {value}" for name, value in sorted(changed.items()))
        notes.not_used.append(f"settings of how collections are packed, unlike defaults: {words}")
    counts = [len(node.config.keys() - _USED_SETTINGS) for node in primaries if node.config]
    if counts:
        notes.not_used.append(f"{max(counts)} other settings of CONFIG GET")
