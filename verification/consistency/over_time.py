"""What must hold of the kinds that run over time."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from forecache.models.over_time.simulate_scenario import simulate_over_time

from .breach import Breach, Held
from .draws import Draws

Point = dict[str, Any]

HOURS_A_MONTH = 730.0

STEP = 0.05
"""Of the workers, how many more requests may be on their way than there are workers for."""


def _run(data: dict[str, Any]) -> Point:
    point: Point = simulate_over_time(data).points[0].to_dict()
    return point


def _series(point: Point, panel: str, name: str) -> np.ndarray | None:
    for column in point["series"]["columns"]:
        if (column["panel"], column["name"]) == (panel, name):
            return np.array([np.nan if v is None else v for v in column["values"]], float)
    return None


def _integral(point: Point, panel: str, name: str) -> float:
    """A rate times the intervals it is reported for."""
    values = _series(point, panel, name)
    if values is None:
        return 0.0
    intervals = np.diff(np.array(point["series"]["time_s"]), prepend=0.0)
    return float(np.nansum(values * intervals))


def _facts(point: Point) -> dict[str, Any]:
    return {fact["name"]: fact["value"] for fact in point["facts"]}


def _nodes_flow(held: Held, point: Point, *, most_on_the_way: float) -> None:
    """What is asked is answered, fails, is turned away, or is on its way at the end."""
    asked = _integral(point, "throughput", "offered")
    away = _integral(point, "errors", "turned away")
    done = _integral(point, "throughput", "answered") + _integral(point, "errors", "failed")
    left = asked - away - done
    held.that(
        "requests are answered, fail, are turned away, or are on their way",
        -1e-6 * asked - 1.0 <= left <= most_on_the_way + 1e-6 * asked,
        f"asked {asked:.1f}, turned away {away:.1f}, answered or failed {done:.1f}, "
        f"{left:.1f} left of {most_on_the_way:g} at most",
    )
    held.adds_up(
        "facts agree with the series they sum up",
        _facts(point)["answered"],
        [round(_integral(point, "throughput", "answered"))],
        "answered",
    )


def _pods(data: dict[str, Any]) -> float:
    clients = data["clients"]
    scaler = clients.get("autoscaler", {})
    pods: float = max(clients["pods"], scaler.get("max_pods", 0))
    # A deployment adds a quarter before it takes the old ones away.
    return pods * (1.25 if any(event["event"] == "deploy" for event in data["events"]) else 1.0)


def cluster(data: dict[str, Any], draws: Draws, *, number: int) -> list[Breach]:
    """A cluster, or nodes that are a cache."""
    del draws
    point, held = _run(data), Held()
    clients, nodes = data["clients"], data["cluster"]
    workers = _pods(data) * clients["workers_per_pod"]
    # What a step asks is drawn after its workers were counted.
    most = workers * clients.get("commands_per_request", 1) * (1.0 + STEP)
    _nodes_flow(held, point, most_on_the_way=most)
    facts = _facts(point)
    shards = max([nodes["shards"], *(e.get("shards", 1) for e in data["events"])])
    listed = [e["nodes"] for e in data["events"] if e["event"] == "node_list"]
    count = max([shards * (1 + nodes.get("replicas", 0)), *listed])
    fleets = 1 + sum(e.get("method") == "blue_green" for e in data["events"])
    able = max(f["value"] for f in point["facts"] if f["name"] == "a node can do")
    answered = _series(point, "throughput", "answered")
    if answered is not None and not data.get("cache"):
        held.not_above(
            "nodes answer no more than they can",
            float(np.nanmax(answered)),
            count * able,
            f"requests/s of {count} nodes",
            by=0.05,
        )
    held.not_above(
        "connections are not above maxclients",
        facts["most connections on a node"],
        nodes.get("maxclients", 10_000),
        "connections of a node",
    )
    if "the run costs" in facts:
        hours = data["duration_s"] / 3600.0
        held.that(
            "costs add up",
            0 < facts["the run costs"] <= fleets * count * 1.0001 * hours * facts["a node costs"]
            or any(e["event"] in ("resize", "node_moves") for e in data["events"]),
            f"{facts['the run costs']:.6g} USD, {count} nodes, {facts['a node costs']:.6g} USD/h",
        )
        held.adds_up(
            "costs add up",
            facts["a month of that"],
            [facts["nodes cost at the end"] * HOURS_A_MONTH],
            "a month, USD",
        )
        per_million = facts["a million answered commands cost"]
        if per_million is not None and facts["answered"] > 1e4:
            held.adds_up(
                "costs add up",
                facts["the run costs"],
                [per_million * facts["answered"] / 1e6],
                "USD per million commands",
                by=1e-3,
            )
    if data.get("cache"):
        _cache(held, data, point)
    # A cache that begins empty fills as fast as its database answers. One shard more has more keys
    # to fetch, so that it finds fewer at first and, where the database is full, answers less.
    filling = data.get("cache", {}).get("begins") == "empty"
    steady = not data["events"] and "rate_rps" in data["demand"] and not filling
    if number % 10 == 0 and steady:
        _more_is_no_less(held, data, point)
    return held.breaches


def _more_is_no_less(held: Held, data: dict[str, Any], point: Point) -> None:
    """More shards with as much data each answer no less."""
    more = deepcopy(data)
    more["cluster"]["shards"] += 1
    more["data"]["keys"] = data["data"]["keys"] // data["cluster"]["shards"]
    more["data"]["keys"] *= more["cluster"]["shards"]
    held.not_above(
        "throughput does not fall with shards",
        _integral(point, "throughput", "answered"),
        _integral(_run(more), "throughput", "answered"),
        f"answered by {data['cluster']['shards']} shards and one more",
        by=0.02,
    )


def _cache(held: Held, data: dict[str, Any], point: Point) -> None:
    """Who is found in the cache is not asked of the database; it answers no more than it can."""
    facts = _facts(point)
    names = ("found in the cache", "answered by the database", "given up at the database")
    parts = [facts[name] for name in (*names, "refused by the database")]
    straight = facts["asked of the database for a node that failed"]
    database = data["cache"]["database"]
    total = _integral(point, "throughput", "answered") + straight
    waiting = total - sum(parts)
    most = max(1.0, data["clients"]["pods"] * data["clients"]["workers_per_pod"])
    held.that(
        "requests are hits, or end at the database",
        -2.0 - 1e-6 * total <= waiting <= most * (1.0 + STEP) + 2.0 + 1e-6 * total,
        f"{total:.0f} asked, {sum(parts)} ended, {most:g} on their way at most",
    )
    queries = _series(point, "database", "answered there")
    if queries is not None:
        coalesced = data["cache"]["coalescing"]
        held.that(
            "the database answers no more than it can",
            coalesced or float(np.nanmax(queries)) <= database["capacity_qps"] * 1.02 + 2.0,
            f"{float(np.nanmax(queries)):.6g}/s of {database['capacity_qps']:g}",
        )


def serverless(data: dict[str, Any], draws: Draws, *, number: int) -> list[Breach]:
    """A serverless cache: what is asked, served, limited and billed."""
    del draws, number
    point, held = _run(data), Held()
    facts, limits = _facts(point), data["limits"]
    # Each connection has one request on its way.
    _nodes_flow(held, point, most_on_the_way=data["clients"]["connections"])
    usd = [_series(point, "cost so far", name) for name in ("requests", "data")]
    assert usd[0] is not None and usd[1] is not None
    held.adds_up(
        "costs add up",
        facts["cost of the run"],
        [float(u[-1]) for u in usd if u is not None],
        "USD",
    )
    held.adds_up(
        "costs add up",
        facts["cost of a month like it"],
        [facts["cost of the run"] * HOURS_A_MONTH * 3600.0 / data["duration_s"]],
        "a month, USD",
    )
    for name, each in zip(("requests", "data"), usd, strict=True):
        held.that(
            "costs do not fall with time", bool(np.all(np.diff(each) >= -1e-12)), f"cost of {name}"
        )
    ecpu = _series(point, "ECPU", "ECPU a minute")
    assert ecpu is not None
    held.not_above(
        "no more ECPU than the user allows",
        float(np.nanmean(ecpu)) / 60.0,
        limits["most_ecpu_per_s"],
        "ECPU/s, mean",
        by=0.02,
    )
    held_bytes = _series(point, "data", "data")
    assert held_bytes is not None
    held.not_above(
        "no more data than the user allows",
        float(np.nanmax(held_bytes)),
        limits["most_gb"] * 1e9,
        "bytes",
        by=1e-3,
    )
    answered = facts["answered"]
    writes = answered * (1.0 - data["demand"]["mix"].get("get", 0.0))
    held.not_above(
        "failed writes are writes",
        facts["writes that failed because there was no room"],
        writes + 1,
        "writes",
    )
    return held.breaches


def large_commands(data: dict[str, Any], draws: Draws, *, number: int) -> list[Breach]:
    """Large commands: their parts, what others feel, and one with more members."""
    del draws
    point, held = _run(data), Held()
    facts = _facts(point)
    rows, parts = (table["rows"] for table in point["tables"][:2])
    end_s = 0.0
    for row, part in zip(rows, parts, strict=True):
        at_s, name, _, lasts_s, main_s = row[:5]
        blocks_s, memory_s = part[1], part[2]
        held.not_above("commands come one after the other", end_s, at_s, f"{name} at, s")
        held.not_above("a command lasts as long as it blocks", blocks_s, lasts_s, f"{name}, s")
        held.not_above("waits for memory are main-thread time", memory_s, main_s, f"{name}, s")
        held.not_above("main-thread time is not above a command's", main_s, lasts_s, f"{name}, s")
        held.not_above("main-thread time has what blocks", blocks_s, main_s, f"{name}, s", by=1e-3)
        end_s = at_s + lasts_s
    held.adds_up("main-thread time adds up", facts["main-thread time"], [r[4] for r in rows], "s")
    p50, p99 = facts.get("p50 of others"), facts.get("p99 of others")
    longest = facts.get("longest latency of others")
    if p50 is not None and p99 is not None and longest is not None:
        held.not_above("quantiles in order", p50, p99, "p50 and p99 of others, ms")
        held.not_above("quantiles in order", p99, longest, "p99 and longest of others, ms")
    if number % 3 == 0:
        _longer(held, data, rows)
    return held.breaches


def _longer(held: Held, data: dict[str, Any], rows: list[list[Any]]) -> None:
    """Twice as much data takes no less time."""
    more = deepcopy(data)
    more["data"]["sets"]["members"] *= 2
    more["data"]["strings"]["keys"] *= 2
    more.pop("load", None)
    for row, later in zip(rows, _run(more)["tables"][0]["rows"], strict=True):
        if row[1] == "get":
            # It has no members, and finds the memory that larger replies before it have taken.
            continue
        held.not_above(
            "more members take no less time", row[3], later[3], f"{row[1]} lasts, s", by=1e-3
        )


def node_life(data: dict[str, Any], draws: Draws, *, number: int) -> list[Breach]:
    """A node over time: shares are shares, keys are some of all, memory stays within its limit."""
    del draws, number
    point, held = _run(data), Held()

    def values(panel: str, name: str) -> np.ndarray:
        found = _series(point, panel, name)
        assert found is not None
        return found[np.isfinite(found)]

    shares = [values("hits", "hits")]
    shares += [values("main thread", name) for name in ("commands", "expiry", "eviction", "syncs")]
    held.that(
        "shares are between 0 and 1",
        all(bool(np.all((each > -1e-9) & (each < 1.0 + 1e-9))) for each in shares[:2]),
        f"{[(each.min(initial=0), each.max(initial=0)) for each in shares]}",
    )
    keys, stale = values("keys", "keys"), values("keys", "expired, still there")
    held.not_above("keys are some of all", float(keys.max()), data["data"]["keys"] * 1.001, "keys")
    held.that("expired keys are some of those that are there", bool(np.all(stale <= keys + 1)), "")
    used, resident = values("memory", "used memory"), values("memory", "resident")
    most = data["settings"].get("maxmemory_bytes")
    if most is not None:
        # A key of the sample more than there is room for, and tables that begin to double.
        held.not_above("used memory is not above maxmemory", float(used[-1]), most * 1.02, "bytes")
    held.that("used memory is resident", bool(np.all(used <= resident + 1)), "bytes")
    p50, p99 = values("latency", "p50"), values("latency", "p99")
    held.that("quantiles in order", bool(np.all(p50 <= p99 + 1e-9)), "p50 and p99, ms")
    evicts = most is not None and data["settings"]["maxmemory_policy"] != "noeviction"
    held.that(
        "keys are evicted only where that is allowed",
        evicts or not values("keys that go", "evicted").any(),
        "evicted",
    )
    expires = "ttl_s" in data["data"]
    held.that("only keys with a time expire", expires or not stale.any(), "expired")
    return held.breaches


def overcommit(data: dict[str, Any], draws: Draws, *, number: int) -> list[Breach]:
    """A fleet: hosts hold no more than they have, whoever wants more is refused."""
    del draws, number
    point, held = _run(data), Held()
    facts = _facts(point)
    hosts, memory_gb = data["hosts"]["count"], data["hosts"]["memory_gb"]

    def peak(panel: str, name: str) -> float:
        values = _series(point, panel, name)
        return 0.0 if values is None else float(np.nanmax(values))

    held.not_above(
        "machines take no more than hosts have", peak("memory", "taken"), hosts * memory_gb, "GB"
    )
    shares = [_series(point, "share of a host taken", n) for n in ("mean of hosts", "fullest host")]
    p95 = _series(point, "share of a host taken", "95% of hosts below")
    assert shares[0] is not None and shares[1] is not None and p95 is not None
    held.that(
        "quantiles in order",
        bool(np.all(shares[0] <= shares[1] + 1e-9) and np.all(p95 <= shares[1] + 1e-9)),
        "mean, 95% and fullest of hosts",
    )
    held.not_above(
        "hosts that are hot and nearly empty ones are some of them",
        peak("hosts", "hot") + 0.0,
        hosts,
        "hot hosts",
    )
    held.that(
        "memory is on disk only where that is allowed",
        data["exhausted"] == "swap" or peak("memory refused", "on disk") == 0.0,
        f"{peak('memory refused', 'on disk'):.3g} GB with exhausted: {data['exhausted']}",
    )
    held.that(
        "machines are killed only where that is allowed",
        data["exhausted"] == "kill" or facts["killed"] == 0,
        f"{facts['killed']} killed with exhausted: {data['exhausted']}",
    )
    ended = _series(point, "migrations", "ended so far")
    assert ended is not None
    held.that(
        "counts do not fall with time", bool(np.all(np.diff(ended) >= 0)), "migrations so far"
    )
    moved = [facts["live migrations"], facts["live migrations that were given up"]]
    held.adds_up("facts agree with the series they sum up", float(ended[-1]), moved, "migrations")
    held.adds_up(
        "facts agree with each other",
        facts["migrations in 10,000 scale-ups"] * max(1, facts["scale-ups"]) / 1e4,
        moved,
        "migrations by scale-ups",
    )
    median, most = facts.get("blackout, median"), facts.get("blackout, 99%")
    if median is not None and most is not None:
        held.not_above("quantiles in order", median, most, "blackout, ms")
    held.not_above(
        "refused scale-ups are some of them",
        facts["refused at first"],
        facts["scale-ups"],
        "refused",
    )
    for table in point["tables"]:
        if table["title"].startswith("Cost"):
            saved = table["rows"][2] if len(table["rows"]) > 2 else None
            for row in table["rows"]:
                held.adds_up("costs add up", row[3], [row[2] * HOURS_A_MONTH], f"{row[0]}, USD")
            if saved is not None:
                there, promised = table["rows"][0], table["rows"][1]
                held.adds_up("costs add up", saved[2], [promised[2], -there[2]], "saved, USD/h")
    return held.breaches
