"""What nodes say beside counters, and what an experienced operator sees in INFO within a minute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any

from forecache.models.plan.results import CommandLatency, Trouble
from forecache.models.scenario.command_table import COMMANDS
from forecache.sim.words import byte_size

from .commands import ALIKE, OPERATIONS, OperationCounts, is_demand
from .data import Notes, four_digits
from .nodes import CALLING, SlowEntry, TodaysNode, main_cpu_s

# --- latencies, hot slots, the slow log, settings, the doctor -------------------------------------


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
    primaries: Sequence[TodaysNode], asked: OperationCounts, seconds: float, notes: Notes
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
    logged = _slow_log_rates(primaries, asked)
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
    found = {"duration_ms": four_digits(duration_ms), "every_s": four_digits(1.0 / rate)}
    return notes.found("demand.slow_command", found, f"{how}: {words}")


def _slow_log_rates(
    primaries: Sequence[TodaysNode], asked: OperationCounts
) -> dict[str, tuple[float, float]]:
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
    return notes.found("demand.hot_slot", min(0.999, four_digits(share)), how)


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
            f"maxmemory {byte_size(most)} with {policy}: a plan leaves memory_headroom to data"
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


# --- troubles, each with its number ---------------------------------------------------------------

# What an experienced operator sees in INFO within a minute: each trouble with its number.
#
# Only what the file shows is told, never advice in general. A trouble has what was read, what it
# costs, and what to set. Bounds are judgements: a server at rest or under plain load crosses none.


_MIB = 2**20

SWAPPED_BYTES = 16 * _MIB
"""Memory in use that isn't resident: less is pages that were never touched."""
_SWAPPED = 0.02

FORK_MS = 50.0
"""A stop by fork from which on clients notice."""

SAVING = 0.4
"""Share of the time in which a child saves from which on saves run into each other."""

_LONG_S = 7 * 86_400.0
"""A life after which an offset from before it hardly counts."""

BACKLOG_S = 60.0
"""A backlog that holds less does not outlast a restart or a hiccup of the network."""

HITS = 0.8
"""Hit ratio below which a cache mostly costs a round trip."""
_LOOK_UPS = 1000

SHORT_LIVED = 50.0
"""Commands a connection below which connecting takes a good part of the work."""
_CONNECTIONS_A_SECOND = 1.0

ONE_CONNECTION_RPS = 1000.0
"""A rate at which one or two connections wait for each reply in turn."""
_FEW_CLIENTS = 2

WAITING = 1.3
"""Wall time of the main thread's work over its CPU time from which on it was kept from a core."""
_BUSY = 0.05
"""Of less, single pauses decide."""

SLOW_MONITORING_US = 100.0
MONITORING_A_SECOND = 0.2
_MONITORING = ("info", "config", "slowlog", "client", "keys", "memory", "latency", "dbsize")

HUGE_PAGE_COPIES = 16.0
"""Pages of 4 KiB that a changed key copies while a child lives; a huge page copies 512."""
_COPIED_BYTES = 64 * _MIB


def troubles_of(nodes: Sequence[TodaysNode]) -> list[Trouble]:
    """The troubles of some nodes, the gravest kinds first."""
    return [
        Trouble(node.name, kind, what, costs, remedy)
        for kind, look in _CHECKS.items()
        for node in nodes
        for what, costs, remedy in look(node)
    ]


Seen = Iterable[tuple[str, str, str]]
"""What was read, what it costs, what to set."""


def look_next(
    primaries: Sequence[TodaysNode], *, shards: int, keys_told: bool, growth_told: bool
) -> list[str]:
    """What to ask of the nodes next, and what it would tell, the most telling first.

    Parameters
    ----------
    shards
        All primaries there are.
    keys_told
        Whether something tells types and sizes of keys.
    growth_told
        Whether looks tell the growth of a week.
    """
    found = []
    if not all(node.last.commands for node in primaries):
        found.append(
            "`INFO ALL` in place of `INFO`: which commands come how often and what each takes, "
            "without which there is no capacity"
        )
    if not all(node.compared for node in primaries):
        span = _span(max(node.span_s for node in primaries))
        found.append(
            "a second `INFO ALL` some minutes after a first, at the busiest time of the day: the "
            f"peak, its connections and what a command takes then, in place of means over {span}"
        )
    if not all(node.config for node in primaries):
        found.append("`CONFIG GET *`: I/O threads, TLS and persistence, which are assumed")
    if len(primaries) < shards:
        found.append(
            f"the same of the other primaries, {shards - len(primaries)} of {shards}: whether one "
            "is busier than those of the files"
        )
    if not keys_told:
        found.append(
            "`--bigkeys` and `--memkeys` of valkey-cli, or an RDB file: what the keys are, in "
            "place of strings of one size that take as much memory"
        )
    if not growth_told:
        found.append(
            "a week of metrics, as Prometheus answers to `query_range`: the busiest hour, and the "
            "growth to give as demand.growth_per_year"
        )
    return found


def _number(node: TodaysNode, name: str) -> float:
    return node.last.number(name) or 0.0


def _grown(node: TodaysNode, name: str) -> float:
    return node.grown(name) or 0.0


def _every(node: TodaysNode, times: float) -> str:
    return f"every {_span(node.span_s / times)}"


def _span(seconds: float) -> str:
    for unit, length_s in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length_s:
            return f"{seconds / length_s:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds >= 1.0 else f"{seconds * 1e3:.3g} ms"


def _rate(a_second: float) -> str:
    return f"{a_second:,.0f}" if a_second >= 100.0 else f"{a_second:.2g}"


def _swapped(node: TodaysNode) -> Seen:
    used, resident = _number(node, "used_memory"), _number(node, "used_memory_rss")
    # What the allocator holds in memory includes its own gaps: swap shows there first.
    held = max(used, _number(node, "allocator_resident"))
    gone = held - resident
    if resident > 0 and gone >= SWAPPED_BYTES and gone > _SWAPPED * held:
        yield (
            f"{byte_size(gone)} of {byte_size(held)} are not in memory (used_memory_rss is less "
            "than what the allocator holds): they are swapped out, or were never touched",
            "a command that needs such a page waits for the disk, and everyone behind it",
            "leave the machine memory for a fork's copies and buffers, set maxmemory below it, and "
            "vm.swappiness 1",
        )


def _forks(node: TodaysNode) -> Seen:
    stop_ms = _number(node, "latest_fork_usec") / 1e3
    forks = node.grown("total_forks")  # versions before 6.2 don't count them
    if stop_ms < FORK_MS or forks == 0:
        return
    often = "" if forks is None else f" {_every(node, forks)}"
    per_gib = stop_ms / max(1e-9, _number(node, "used_memory") / 2**30)
    yield (
        f"a fork stops the server for {_span(stop_ms / 1e3)}{often} ({per_gib:.0f} ms a GiB)",
        "no request is answered in that time; one that arrives then waits up to that long",
        "save on a replica or less often, keep less data on a node, and leave transparent huge "
        "pages off",
    )


def _saves(node: TodaysNode) -> Seen:
    child_s, saves = _child_s(node), _grown(node, "rdb_saves")
    if child_s is None or saves < 2:
        return
    every_s = node.span_s / saves
    if child_s >= SAVING * every_s:
        yield (
            f"a save takes {_span(child_s)} and one begins every {_span(every_s)}: a child runs "
            f"{min(1.0, child_s / every_s):.0%} of the time",
            "it takes a core and the disk, and pages that change meanwhile are copied",
            "save less often (save 3600 1), or on a replica",
        )


def _child_s(node: TodaysNode) -> float | None:
    """How long the last save took; None where none was made, which INFO says as -1."""
    text = node.last.text("rdb_last_bgsave_time_sec") or "-1"
    return None if text.startswith("-") else _number(node, "rdb_last_bgsave_time_sec")


def _full_syncs(node: TodaysNode) -> Seen:
    replicas = _number(node, "connected_slaves")
    full, partial = _grown(node, "sync_full"), _grown(node, "sync_partial_ok")
    backlog = _number(node, "repl_backlog_size")
    written = _written_a_second(node)
    holds_s = backlog / written if written > 0 and backlog > 0 else inf
    # The first copy of each replica is no trouble.
    first = 0.0 if node.compared else max(1.0, replicas)
    if full - first >= 2 and partial < full:
        held = (
            f"; the backlog of {byte_size(backlog)} holds {_span(holds_s)}" if holds_s < inf else ""
        )
        yield (
            f"{full:.0f} full syncs ({_every(node, full)}) and {partial:.0f} partial ones{held}",
            "each one forks, sends the whole data set and reloads it on the replica, which "
            "meanwhile serves stale data or none",
            "set repl-backlog-size to what is written while a copy is made and loaded, and raise "
            "the replica limit of client-output-buffer-limit",
        )
    elif replicas > 0 and holds_s < BACKLOG_S:
        yield (
            f"the backlog of {byte_size(backlog)} holds {_span(holds_s)} of writes "
            f"({byte_size(written)} a second)",
            "a replica that is away for longer is copied anew",
            f"set repl-backlog-size to {byte_size(10 * BACKLOG_S * written)} (ten minutes)",
        )


def _written_a_second(node: TodaysNode) -> float:
    """Bytes a second of the stream to replicas; 0 where nothing tells it.

    An offset may be older than the server's start, so that of one look is no rate by itself.
    """
    offset = _number(node, "master_repl_offset")
    if node.compared:
        before = node.looks[0].number("master_repl_offset") or 0.0
        return max(0.0, offset - before) / node.span_s
    kib = node.last.number("instantaneous_output_repl_kbps")
    if kib is not None:
        now = 1024.0 * kib / max(1.0, _number(node, "connected_slaves"))
        return min(now, offset / node.span_s)
    return offset / node.span_s if node.span_s >= _LONG_S else 0.0


def _cut_off(node: TodaysNode) -> Seen:
    cut = _grown(node, "client_output_buffer_limit_disconnections")
    if cut > 0:
        yield (
            f"{cut:.0f} clients or replicas were cut off because their output buffer was full",
            "a replica is copied anew, a subscriber misses messages",
            "raise client-output-buffer-limit (replica 512mb 128mb 60), or find who reads slowly",
        )


def _memory(node: TodaysNode) -> Seen:
    evicted = _grown(node, "evicted_keys")
    most, used = _number(node, "maxmemory"), _number(node, "used_memory")
    policy = node.last.text("maxmemory_policy") or "noeviction"
    keys = sum(each.keys for each in node.last.databases)
    ending = sum(each.expires for each in node.last.databases)
    if evicted > 0:
        share = f", {ending:,} of them with a time to live" if keys else ""
        yield (
            f"{evicted:,.0f} keys were evicted by {policy} "
            f"({_rate(evicted / node.span_s)} a second); {keys:,} are there{share}",
            "each write at the limit first looks for keys to evict, and what was evicted is missed",
            "raise maxmemory or add shards if the hit ratio is too low; give keys a time to live",
        )
    elif most > 0 and used > 0.95 * most and policy == "noeviction":
        yield (
            f"{byte_size(used)} of maxmemory {byte_size(most)} are used with noeviction",
            "writes are refused as soon as it is full",
            "raise maxmemory, or set a maxmemory-policy that evicts",
        )
    if policy.startswith("volatile") and most > 0 and used > 0.5 * most and ending < 0.1 * keys:
        yield (
            f"{ending:,} of {keys:,} keys have a time to live, and {policy} evicts only those",
            "once they are gone writes are refused",
            "set maxmemory-policy allkeys-lru, or give keys a time to live",
        )


def _hits(node: TodaysNode) -> Seen:
    hits, misses = _grown(node, "keyspace_hits"), _grown(node, "keyspace_misses")
    if hits + misses >= _LOOK_UPS and hits < HITS * (hits + misses):
        yield (
            f"{hits / (hits + misses):.0%} of the look-ups find something",
            "each miss costs a wasted request and one more to what is behind the cache",
            "look at which keys are missed: never written, expired, or evicted",
        )


def _connections(node: TodaysNode) -> Seen:
    made, refused = _grown(node, "total_connections_received"), _grown(node, "rejected_connections")
    if refused > 0:
        yield (
            f"{refused:,.0f} connections were refused (maxclients "
            f"{_number(node, 'maxclients') or 10_000:,.0f})",
            "these clients got an error",
            "raise maxclients and the limit of open files, or make pools smaller",
        )
    commands = _grown(node, "total_commands_processed")
    a_second = made / node.span_s
    if a_second >= _CONNECTIONS_A_SECOND and commands < SHORT_LIVED * made:
        yield (
            f"{_rate(a_second)} connections a second, each for {commands / made:.2g} commands",
            "accepting, greeting and closing takes as long as dozens of GETs, with TLS as hundreds",
            "keep connections in a pool",
        )
    most = max(look.number("connected_clients") or 0.0 for look in node.looks)
    blocked = max(look.number("blocked_clients") or 0.0 for look in node.looks)
    rate = commands / node.span_s
    reads = _grown(node, "total_reads_processed")
    if 0 < most - blocked <= _FEW_CLIENTS + 1 and rate >= ONE_CONNECTION_RPS and node.compared:
        each = f", {commands / reads:.2g} commands a read" if reads else ""
        yield (
            f"{most:.0f} connections ask for {rate:,.0f} commands a second{each}",
            "they wait for each reply before they ask again: the round trip is the limit, not the "
            "server",
            "use more connections or pipelines",
        )


def _kept_waiting(node: TodaysNode) -> Seen:
    """Work of the main thread in wall time, against its CPU time."""
    active_s, source = node.grown("used_active_time_main_thread"), "used_active_time_main_thread"
    wall_us = None if active_s is None else 1e6 * active_s
    if wall_us is None:
        wall_us, source = node.grown("eventloop_duration_sum"), "eventloop_duration_sum"
    if wall_us is None:
        spent_us = [us for name, (_, us) in node.counts.items() if name not in CALLING]
        wall_us, source = sum(spent_us), "usec of commands"
    cpu_s = main_cpu_s(node)
    stopped_us = _grown(node, "total_forks") * _number(node, "latest_fork_usec")
    wall_s = (wall_us - stopped_us) / 1e6
    if cpu_s is None or cpu_s <= 0 or wall_s < _BUSY * node.span_s:
        return
    if wall_s > WAITING * cpu_s:
        yield (
            f"the main thread worked {wall_s / node.span_s:.0%} of the time ({source}) but had a "
            f"core for {cpu_s / node.span_s:.0%}",
            "for the rest it waited for a core, a quota or a page: latencies have gaps",
            "look at the CPU quota (cpu.max, nr_throttled), at steal time, and at who shares its "
            "core",
        )


def _monitoring(node: TodaysNode) -> Seen:
    for name in _MONITORING:
        found = [each for n, each in node.counts.items() if n.split("|")[0] == name]
        calls, spent_us = sum(c for c, _ in found), sum(us for _, us in found)
        rate = calls / node.span_s
        slow = calls > 0 and spent_us / calls >= SLOW_MONITORING_US
        if slow and rate >= MONITORING_A_SECOND:
            yield (
                f"{name.upper()} runs {rate:.2g} times a second and takes "
                f"{spent_us / calls:,.0f} µs ({spent_us / node.span_s / 1e4:.2g}% of the main "
                "thread)",
                "every request that arrives then waits for it",
                "poll less often, or only the sections that are used",
            )


def _huge_pages(node: TodaysNode) -> Seen:
    copied, child_s = _number(node, "rdb_last_cow_size"), _child_s(node)
    if child_s is None:
        return
    calls = sum(
        each
        for name, (each, _) in node.counts.items()
        if ALIKE.get(name) == "set" or (name in OPERATIONS and COMMANDS[OPERATIONS[name]].writes)
    )
    written = calls / node.span_s * max(1.0, child_s)
    if copied >= _COPIED_BYTES and written > 0 and copied > HUGE_PAGE_COPIES * 4096 * written:
        yield (
            f"the last save copied {byte_size(copied)} for some {written:,.0f} writes: "
            f"{byte_size(copied / written)} each",
            "a write copies a huge page of 2 MiB while a child saves, which takes 0.1 ms and more",
            "turn transparent huge pages off (echo never > "
            "/sys/kernel/mm/transparent_hugepage/enabled) and start the server anew",
        )


_CHECKS: dict[str, Callable[[TodaysNode], Seen]] = {
    "swapped": _swapped,
    "full syncs": _full_syncs,
    "cut off": _cut_off,
    "forks": _forks,
    "saves": _saves,
    "huge pages": _huge_pages,
    "kept waiting": _kept_waiting,
    "memory": _memory,
    "connections": _connections,
    "hits": _hits,
    "monitoring": _monitoring,
}
