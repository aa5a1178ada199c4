"""Random valid scenarios: small, so that one takes milliseconds, and of every feature some."""

from collections.abc import Callable
from typing import Any

from forecache.models.engines.commands import counted_on
from forecache.models.engines.profile import load_engine
from forecache.models.layouts.generations import generation
from forecache.models.scenario.command_table import COMMANDS, commands_on

from .draws import Draws

Scenario = dict[str, Any]

HOSTS = (
    *("graviton3-c7g.4xlarge", "graviton4-c8g.4xlarge", "c7g.xlarge", "r7g.2xlarge", "m7i.2xlarge"),
    *("m6i.large", "r6g.4xlarge", "raspberry-pi-cm4", "xeon-m1"),
)

ENGINES = {
    "asynchronous": (("valkey", "8.0"), ("valkey", "8.1"), ("valkey", "9.0")),
    "shared_queues": (("valkey", "9.1"),),
    "fork_join": (("redis", "6.2"), ("redis", "7.0"), ("redis", "7.4"), ("valkey", "7.2")),
    "multiplexed": (("elasticache-redis", "7.0"), ("elasticache-redis", "7.1")),
    "owning_threads": (("redis", "8.0"), ("redis", "8.2")),
    "locked_threads": (("memcached", "1.6"),),
}
"""Engines of each threading policy but the single thread, which is that of all of them."""

POLICIES = ("single_thread", *ENGINES)

_LOGGED = ("valkey", "redis")


def node(draws: Draws, policy: str) -> Scenario:
    """A node in a steady state, with one threading policy."""
    named = draws.one_of(POLICIES[1:]) if policy == "single_thread" else policy
    engine, version = draws.one_of(ENGINES[named])
    threads = 1 if policy == "single_thread" else draws.count(2, 9)
    scenario: Scenario = {
        "host": draws.one_of(HOSTS),
        "engine": engine,
        "engine_version": version,
        "io_threads": threads,
        "workload": _workload(draws, counted_on(load_engine(engine, version).commands)),
    }
    if draws.chance(0.3):
        _less_usual(draws, scenario)
    if draws.chance(0.3):
        scenario["load_generator"] = {"threads": draws.count(1, 32)}
    return scenario


def _workload(draws: Draws, commands: list[str]) -> Scenario:
    workload: Scenario = {
        "clients": draws.count(1, 400),
        "mix": _mix(draws, commands),
        "keys": draws.count(1, 20_000_000),
        "key_bytes": draws.count(4, 100),
        "value_bytes": _sizes(draws),
        "popularity": _popularity(draws),
    }
    if workload["mix"].keys() & commands_on("sorted_set"):
        workload["sorted_sets"] = {"keys": draws.count(1, 1000), "members": draws.count(1, 10_000)}
    if workload["mix"].keys() & commands_on("hash"):
        workload["hashes"] = {"keys": draws.count(1, 100_000), "fields": draws.count(2, 50)}
    if draws.chance(0.5):
        return workload | _arrivals(draws)
    if draws.chance(0.3):
        workload["pipeline"] = draws.count(2, 32)
        workload["clients"] = min(workload["clients"], 60)
    if draws.chance(0.2):
        workload["think_us"] = draws.size(1, 5000)
    return workload


def _arrivals(draws: Draws) -> Scenario:
    """An open loop: mostly at a steady rate."""
    rate = draws.size(2_000, 1_200_000)
    how = draws.one_of(("rate", "rate", "rate", "rate", "rate", "rate", "profile", "bursts"))
    found: Scenario = {"arrival": "open_loop"}
    if how == "rate":
        found["rate_rps"] = rate
    elif how == "profile":
        found["rate_profile"] = [
            {"duration_s": draws.size(0.002, 0.02), "rate_rps": rate * draws.between(0.2, 1.5)}
            for _ in range(draws.count(1, 4))
        ]
    else:
        found["bursts"] = {
            "calm_rps": rate * 0.2,
            "burst_rps": rate,
            "calm_s": draws.size(0.002, 0.02),
            "burst_s": draws.size(0.001, 0.005),
        }
    return found


def _sizes(draws: Draws) -> Any:
    if draws.chance(0.8):
        return draws.count(1, 8192)
    low = draws.count(1, 1000)
    if draws.chance(0.5):
        return {"distribution": "uniform", "low": low, "high": low * draws.count(1, 8)}
    return {"values": [low, low * 10], "weights": [draws.between(0.1, 1), draws.between(0.1, 1)]}


def _popularity(draws: Draws) -> Any:
    if draws.chance(0.7):
        return "uniform"
    if draws.chance(0.5):
        return {"zipf": draws.between(0.5, 1.3)}
    return {"hot_set": {"keys": draws.between(0.01, 0.4), "requests": draws.between(0.5, 0.95)}}


def _mix(draws: Draws, commands: list[str]) -> Scenario:
    get = draws.one_of((1.0, 0.0, 0.5, 0.8, 0.9))
    others = [name for name in commands if COMMANDS[name].work]
    if not others or draws.chance(0.8):
        return {name: share for name, share in (("get", get), ("set", 1.0 - get)) if share > 0}
    other = draws.one_of(others)
    asked: Any = 0.5
    if (items := COMMANDS[other].items) not in ("one", "all"):
        asked = {"share": 0.5, items: draws.count(1, 20)}
    return {"get": 0.5, other: asked}


def _less_usual(draws: Draws, scenario: Scenario) -> None:
    """One feature besides: TLS, a disk, replicas, cores that are shared, a quota, stalls."""
    logged = scenario["engine"] in _LOGGED
    features = ["tls", "cores", "irq", "quota", "other", "slow", "same_host", "unix_socket"]
    features += ["aof", "replicas", "snapshot"] if logged else []
    feature = draws.one_of(features)
    if feature == "tls":
        scenario["tls"] = True
    elif feature == "cores":
        scenario["cores"] = draws.count(1, 4)
    elif feature == "irq":
        scenario["irq_cores"] = 1
    elif feature == "quota":
        scenario["cpu_quota_cores"] = draws.between(0.2, 3)
        scenario["cpu_quota_period_ms"] = draws.one_of((10, 20, 50))
    elif feature == "other":
        scenario["cores"] = draws.count(1, 4)
        scenario["other_busy_threads"] = draws.count(1, 3)
    elif feature == "slow":
        scenario["workload"]["slow_command"] = {
            "duration_ms": draws.size(0.1, 5),
            "every_s": draws.size(0.01, 0.05),
        }
    elif feature == "same_host":
        scenario["load_generator"] = {"same_host": True, "threads": draws.count(1, 8)}
    elif feature == "unix_socket":
        scenario["transport"] = "unix_socket"
    elif feature == "aof":
        scenario["persistence"] = {"aof": "everysec"}
    elif feature == "replicas":
        scenario["replicas"] = draws.count(1, 3)
    else:
        # More often than anybody would, so that a short run has some.
        every_s = draws.size(0.05, 0.2)
        scenario["persistence"] = {"snapshot": {"every_s": every_s, "child_s": every_s / 2}}


_NODES = (
    *(("m7i.2xlarge", "valkey", "9.1", 1), ("m7i.2xlarge", "valkey", "9.1", 4)),
    *(("c7g.xlarge", "valkey", "8.1", 3), ("r7g.2xlarge", "redis", "7.2", 1)),
    *(("c7g.4xlarge", "redis", "8.2", 6),),
)
"""What nodes of clusters are, a few: what one can do takes seconds to find out, once each."""

_CLUSTER_DATA = (
    {"keys": 1_000_000, "value_bytes": 512},
    {"keys": 12_000_000, "value_bytes": 100, "popularity": {"zipf": 0.9}},
)


def cluster(draws: Draws) -> Scenario:
    """A cluster over a minute or so, with clients, events and costs."""
    host, engine, version, threads = draws.one_of(_NODES)
    shards, replicas = draws.one_of((1, 2, 3, 4)), draws.one_of((0, 1, 2))
    duration_s = draws.one_of((20, 40, 60))
    rate = draws.size(1_000, 400_000) * shards
    scenario: Scenario = {
        "kind": "cluster",
        "duration_s": duration_s,
        "step_s": 0.1,
        "cluster": {
            "host": host,
            "engine": engine,
            "engine_version": version,
            "io_threads": threads,
            "shards": shards,
            "replicas": replicas,
            "maxclients": draws.one_of((10_000, 10_000, 2_000)),
        },
        # A surrogate is that of a shard, so that its data must not depend on how many there are.
        "data": {**(data := draws.one_of(_CLUSTER_DATA)), "keys": data["keys"] * shards},
        "clients": _pods(draws),
        "demand": {**_demand(draws, rate), "mix": {"get": 0.8, "set": 0.2}},
        "events": [
            _event(draws, at_s=at_s, shards=shards, replicas=replicas, host=host)
            for at_s in sorted(draws.between(1, duration_s - 5) for _ in range(draws.count(1, 3)))
            if draws.chance(0.6)
        ],
    }
    if draws.chance(0.5):
        scenario["cost"] = {}
    return scenario


def _pods(draws: Draws) -> Scenario:
    found: Scenario = {
        "pods": draws.count(1, 60),
        "workers_per_pod": draws.count(10, 200),
        "connections": draws.one_of(("persistent", "persistent", "persistent", "per_request")),
        "initially_connected": draws.chance(0.8),
        "commands_per_request": draws.one_of((1, 1, 1, 5)),
        "request_ms": draws.one_of((0, 0, 1, 20)),
        "timeout_s": draws.one_of((0.2, 0.5, 1)),
        "retries": draws.one_of((0, 1, 3)),
    }
    if draws.chance(0.15):
        found["autoscaler"] = {
            "cpu_target": draws.between(0.3, 0.8),
            "cpu_s_per_request": draws.size(1e-5, 1e-2),
            "max_pods": 200,
        }
    return found


def _demand(draws: Draws, rate: float) -> Scenario:
    if draws.chance(0.6):
        return {"rate_rps": rate}
    if draws.chance(0.6):
        pieces = [
            {"duration_s": draws.between(2, 15), "rate_rps": rate * draws.between(0.2, 2)}
            for _ in range(3)
        ]
        return {"rate_profile": pieces}
    return {
        "bursts": {
            "calm_rps": rate * 0.3,
            "burst_rps": rate * 2,
            "calm_s": draws.between(2, 10),
            "burst_s": draws.between(1, 4),
        }
    }


def _event(draws: Draws, *, at_s: float, shards: int, replicas: int, host: str) -> Scenario:
    names = ["background", "deploy", "hot_key", "maintenance", "node_dies", "resize", "upgrade"]
    names += ["fail", "replica_reads"] if replicas else []
    name = draws.one_of(names)
    event: Scenario = {"event": name, "at_s": at_s}
    if name == "background":
        event |= {"share": draws.between(0.1, 0.9), "lasts_s": draws.between(1, 10)}
    elif name == "deploy":
        event |= {"lasts_s": draws.between(2, 20)}
    elif name == "hot_key":
        event |= {"share": draws.between(0.05, 0.9), "lasts_s": draws.between(1, 20)}
    elif name == "maintenance":
        event |= {"window_s": 30, "down_s": draws.between(1, 10)}
    elif name == "node_dies":
        event |= {"node": draws.one_of(range(shards)), "back_after_s": draws.between(1, 10)}
    elif name == "resize":
        event |= {"shards": draws.one_of([n for n in (1, 2, 3, 4, 5, 6) if n != shards])}
        event |= {"method": draws.one_of(("atomic", "key_by_key")), "provision_s": 2}
    elif name == "upgrade":
        event |= _upgrade(draws, host)
    elif name == "fail":
        event |= {"primaries": 1, "node_timeout_s": draws.between(1, 5)}
    else:
        event |= {"share": draws.between(0, 1)}
    return event


def _upgrade(draws: Draws, host: str) -> Scenario:
    """To nodes that another scenario has too, or the same ones."""
    engine, version, threads = draws.one_of([each[1:] for each in _NODES if each[0] == host])
    return {
        "to": {"engine": engine, "engine_version": version, "io_threads": threads},
        "method": draws.one_of(("rolling", "rolling", "blue_green", "in_place")),
        "persistence": draws.one_of(("none", "snapshot", "append_only")),
        "failover": draws.one_of(("manual", "on_failure")),
        "node_timeout_s": draws.between(1, 5),
        "shards_at_once": draws.count(1, 4),
        "restart_s": draws.between(0.1, 5),
        "switch_s": draws.between(0, 2),
        "sync_delay_s": draws.between(0, 5),
        "buffer_mbyte": draws.one_of((256, 256, 1)),
        "give_up_s": draws.one_of((7200, 10)),
    }


def lookaside(draws: Draws) -> Scenario:
    """Memcached, or another engine, as a cache beside a database."""
    threads, shards = draws.one_of((1, 4)), draws.one_of((1, 2, 3, 5))
    duration_s = draws.one_of((30, 60))
    cache: Scenario = {
        "hashing": draws.one_of(("modulo", "ketama")),
        "coalescing": draws.chance(0.3),
        "when_down": draws.one_of(("database", "error")),
        "begins": draws.one_of(("warm", "empty")),
        "database": {
            "capacity_qps": draws.size(200, 100_000),
            "latency_ms": draws.size(0.5, 50),
            "timeout_s": draws.one_of((0.5, 2)),
            "abandoned": draws.one_of(("run", "cancelled")),
        },
    }
    if draws.chance(0.4):
        cache["memory_mib"] = draws.count(8, 512)
    if draws.chance(0.3):
        cache["database"]["most_waiting"] = draws.count(1, 10_000)
    events: list[Scenario] = []
    if draws.chance(0.6):
        events.append({"event": "node_list", "at_s": 10, "nodes": draws.one_of((1, 2, 4, 6))})
    if draws.chance(0.3):
        down = {"event": "node_dies", "at_s": 15, "node": 0, "back_after_s": draws.between(1, 9)}
        events.append(down)
    return {
        "kind": "cluster",
        "duration_s": duration_s,
        "cluster": {
            "host": "c7g.xlarge",
            "engine": "memcached",
            "engine_version": "1.6",
            "io_threads": threads,
            "shards": shards,
        },
        "data": {
            "keys": 200_000 * shards,
            "value_bytes": 1000,
            "popularity": draws.one_of(("uniform", {"zipf": 0.99})),
        },
        "cache": cache,
        "clients": {
            "pods": draws.count(1, 40),
            "workers_per_pod": draws.count(5, 50),
            "retries": draws.one_of((0, 2)),
        },
        "demand": {"rate_rps": draws.size(500, 100_000), "mix": {"get": 1.0}},
        "events": events,
    }


def serverless(draws: Draws) -> Scenario:
    """A serverless cache over some minutes."""
    get = draws.one_of((1.0, 0.8, 0.5))
    mix = {"get": get} | ({"set": 1.0 - get} if get < 1 else {})
    # What a shard can do follows from its keys, and takes seconds to find out, once each.
    keys, value_bytes = draws.one_of(((1_000_000, 512), (10_000_000, 100)))
    demand: Scenario = {"mix": mix} | draws.one_of(
        (
            {"rate_rps": draws.size(500, 2_000_000)},
            {"ramp_to_rps": draws.size(50_000, 2_000_000)},
            {"closed_loop": True},
            {
                "rate_profile": [
                    {"duration_s": 30, "rate_rps": draws.size(500, 500_000)} for _ in "ab"
                ]
            },
        )
    )
    most_gb = draws.one_of((5_000, 1, 0.2))
    limits: Scenario = {
        "most_gb": most_gb,
        "most_ecpu_per_s": draws.size(10_000, 10_000_000),
        "expiring": draws.chance(0.7),
        "least_gb": draws.one_of((0, 0.1)),
    }
    if draws.chance(0.4):
        most = limits["most_ecpu_per_s"]
        limits["least"] = [{"at_s": draws.one_of((0, 20)), "ecpu_per_s": draws.between(0, most)}]
    filled = draws.one_of((0.0, 0.0, 0.5, 1.0)) if most_gb > 1 else 0.0
    return {
        "kind": "serverless",
        "version": draws.one_of(("7.2", "8.0")),
        "duration_s": draws.one_of((60, 120)),
        "step_s": 0.5,
        "data": {"keys": keys, "value_bytes": value_bytes},
        "filled": filled,
        "shards": draws.one_of((1, 1, 2)),
        "demand": demand,
        "clients": {"connections": draws.count(10, 20_000)},
        "limits": limits,
    }


def large_commands(draws: Draws) -> Scenario:
    """Large commands one after the other, and what others feel."""
    engine, version = draws.one_of(
        (("redis", "2.8"), ("redis", "5.0"), ("redis", "6.0"), ("redis", "7.0"), ("redis", "7.4"))
        + (("valkey", "7.2"), ("valkey", "8.1"), ("valkey", "9.1"))
    )
    commands: list[Scenario] = []
    at_s = 0.0
    for _ in range(draws.count(1, 4)):
        at_s += draws.between(0, 1)
        name = draws.one_of(
            ("smembers", "sinter", "sunion", "sdiff", "keys", "flushdb", "import", "get")
        )
        command: Scenario = {"at_s": round(at_s, 3), "command": name}
        if name in ("sinter", "sunion", "sdiff") and draws.chance(0.7):
            command["overlap"] = draws.between(0, 1)
        if name == "flushdb" and engine != "redis" and draws.chance(0.5):
            command["mode"] = draws.one_of(("sync", "async"))
        if name == "get":
            command["value_bytes"] = draws.count(1000, 100_000_000)
        commands.append(command)
    scenario: Scenario = {
        "kind": "large_commands",
        "host": draws.one_of(HOSTS[:7]),
        "engine": engine,
        "engine_version": version,
        "data": {
            "sets": {
                "count": draws.count(2, 6),
                "members": draws.count(600, 2_000_000),
                "member_bytes": draws.count(4, 200),
            },
            "strings": {"keys": draws.count(1, 2_000_000), "key_bytes": draws.count(4, 100)},
        },
        "commands": commands,
    }
    if draws.chance(0.4):
        scenario["client"] = {"host": draws.one_of(HOSTS[:7])}
    elif draws.chance(0.3):
        scenario["client"] = {"element_ns": draws.size(1, 1000), "byte_ns": draws.between(0, 2)}
    if draws.chance(0.3):
        scenario["network"] = {"gbit_per_s": draws.size(0.1, 100)}
    if draws.chance(0.7):
        scenario["load"] = {
            "requests_per_s": draws.size(1, 20_000),
            "set_share": draws.between(0, 1),
        }
    return scenario


_POLICIES = (
    *("noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random"),
    *("volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"),
)


def node_life(draws: Draws) -> Scenario:
    """A node for minutes to days, with everything that may happen to it."""
    engine, version = draws.one_of((("redis", "7.2"), ("valkey", "9.0")))
    # Few different nodes, each of which is simulated at many loads first.
    keys, value_bytes, popularity = draws.one_of(
        ((2_000, 900, "uniform"), (3_000_000, 100, {"zipf": 0.99}), (40_000_000, 30, "uniform"))
    )
    duration_s = draws.size(60, 3 * 86_400)
    policy = draws.one_of(_POLICIES)
    data: Scenario = {"keys": keys, "value_bytes": value_bytes, "popularity": popularity}
    data["begins"] = draws.one_of(("full", "empty"))
    if policy.startswith("volatile") or draws.chance(0.5):
        data["ttl_s"] = draws.size(1, 200_000)
        data["ttl"] = draws.between(0.05, 1)
    scenario: Scenario = {
        "kind": "node_life",
        "duration_s": duration_s,
        "report_s": duration_s / 40,
        "host": "m7i.large",
        "engine": engine,
        "engine_version": version,
        "settings": {
            "maxmemory_policy": policy,
            "maxmemory_samples": draws.count(1, 20),
            "hz": draws.one_of((1, 10, 100)),
            "active_expire_effort": draws.count(1, 10),
        },
        "data": data,
        "demand": {
            "rate_rps": draws.size(1, max(10, min(50_000, 2e7 / duration_s))),
            "mix": {"get": 0.8, "set": 0.2},
        },
        "stores_misses": draws.chance(0.5),
        "events": [],
    }
    if draws.chance(0.7):
        used = keys * (value_bytes + 80)
        scenario["settings"]["maxmemory_bytes"] = round(20e6 + used * draws.between(0.05, 1.2))
    if draws.chance(0.4):
        scenario["snapshot_every_s"] = duration_s * draws.between(0.02, 0.6)
    if draws.chance(0.4):
        load = {"event": "load", "at_s": duration_s * draws.between(0, 0.9)}
        load |= {"over_s": duration_s * draws.between(0.01, 0.5), "share": draws.between(0.01, 1)}
        scenario["events"].append(load)
    if draws.chance(0.4):
        scenario["replicas"] = {"buffer_mbyte": draws.size(0.1, 1_000)}
        lost = {"event": "lose_replica", "at_s": duration_s * draws.between(0, 0.9)}
        scenario["events"].append(lost | {"lasts_s": duration_s * draws.between(0.001, 0.5)})
    return scenario


def overcommit(draws: Draws) -> Scenario:
    """A small fleet for some hours."""
    hosts, memory_gb = draws.count(2, 12), draws.one_of((64, 128, 256))
    machines = draws.count(2, 120)
    policies = ("random", "best_of_two", "unbalanced", "emptiest")
    move_above = draws.between(0.4, 0.9)
    scenario: Scenario = {
        "kind": "overcommit",
        "duration_s": draws.one_of((1800, 3600)),
        "step_s": draws.one_of((10, 30)),
        "hosts": {"count": hosts, "memory_gb": memory_gb, "network_gbit_per_s": draws.size(1, 100)},
        "machines": {
            "count": machines,
            "unit_gb": draws.one_of((0.25, 1, 2)),
            "give_back": {
                "mechanism": draws.one_of(("free_page_reporting", "balloon", "hotplug", "none"))
            },
        },
        "demand": {
            "mean_gb": min(
                draws.size(0.2, 30), 1.5 * hosts * memory_gb / machines, 0.5 * memory_gb
            ),
            "spread": draws.between(0, 2),
            "daily_swing": draws.between(0, 1),
            "noise": draws.between(0, 0.5),
            "bursts": {"per_day": draws.between(0, 20), "factor": draws.between(1, 5)},
        },
        "heat": {"move_above": move_above, "give_until": draws.between(move_above + 0.01, 1.0)},
        "policies": {
            "placement": draws.one_of(policies),
            "destination": draws.one_of(policies),
            "victim": draws.one_of(("largest", "smallest_that_cools", "cheapest", "random")),
            "fill_until": draws.between(0.2, 1),
        },
        "exhausted": draws.one_of(("wait", "swap", "kill")),
        "patience_s": draws.one_of((0, 60)),
    }
    if draws.chance(0.4):
        scenario["machines"] |= {"arrivals_per_hour": draws.between(0, 50), "lifetime_h": 1}
    if draws.chance(0.4):
        scenario["machines"]["requests"] = {
            "reads_per_s_per_gb": draws.size(1, 10_000),
            "writes_per_s_per_gb": draws.size(1, 10_000),
        }
    if draws.chance(0.3):
        scenario["failures"] = [{"at_s": draws.between(100, 1500), "hosts": 1}]
    if draws.chance(0.3):
        crowd = {"at_s": 900, "lasts_s": 900, "share": draws.between(0.1, 1), "factor": 2}
        scenario["crowds"] = [crowd]
    if draws.chance(0.5):
        scenario["cost"] = {"usd_per_host_hour": draws.size(0.1, 10), "source": "drawn"}
    return scenario


_WEIGHED = (
    *(
        ("redis", version)
        for version in ("2.8", "3.0", "3.2", "5.0", "6.2", "7.0", "7.2", "7.4", "8.2")
    ),
    *(("valkey", version) for version in ("7.2", "8.0", "8.1", "9.0", "9.1")),
)


def memory(draws: Draws) -> Scenario:
    """Data of several types on one node."""
    engine, version = draws.one_of(_WEIGHED)
    scenario: Scenario = {
        "kind": "memory",
        "engine": engine,
        "engine_version": version,
        "clients": draws.count(1, 5000),
        "replicas": draws.one_of((0, 0, 1, 2)),
        "data": [_population(draws) for _ in range(draws.count(1, 3))],
    }
    if generation(engine, version).slots is not None and draws.chance(0.3):
        scenario |= {"cluster": True, "shards": draws.count(1, 20)}
    limit = draws.one_of(("none", "host", "maxmemory", "both"))
    if limit in ("host", "both"):
        scenario["host"] = draws.one_of(HOSTS[:7])
    if limit in ("maxmemory", "both"):
        scenario["maxmemory_bytes"] = draws.count(10**8, 10**11)
    if draws.chance(0.3):
        scenario["forking"] = {"writes_per_s": draws.size(1, 100_000)}
    return scenario


def _population(draws: Draws) -> Scenario:
    kind = draws.one_of(("string", "string", "set", "hash", "sorted_set", "list"))
    found: Scenario = {
        "type": kind,
        "keys": draws.count(1, 20_000_000),
        "key_bytes": draws.count(1, 300),
        "ttl": draws.one_of((0, 0, 1, 0.3)),
    }
    items = draws.count(1, 5_000)
    if kind != "string":
        found["keys"] = max(1, found["keys"] // items)
    if kind == "string":
        return found | {"value_bytes": draws.count(1, 20_000)}
    if kind == "set":
        return found | {"members": items, "member_bytes": draws.count(1, 200)}
    if kind == "hash":
        sizes = {"field_bytes": draws.count(1, 100), "value_bytes": draws.count(1, 500)}
        return found | {"fields": items} | sizes
    if kind == "sorted_set":
        return found | {"members": items, "member_bytes": draws.count(1, 200)}
    return found | {"elements": items, "element_bytes": draws.count(1, 500)}


_TYPES = ("cache.m6g.large", "cache.m7g.xlarge", "cache.r7g.large", "cache.r7g.16xlarge")


def cost(draws: Draws) -> Scenario:
    """A month of a cache."""
    scenario: Scenario = {
        "kind": "cost",
        "engine": draws.one_of(("redis", "valkey", "memcached")),
        "data_gb": draws.size(0.001, 300),
        "requests": [_requests(draws) for _ in range(draws.count(1, 3))],
    }
    if draws.chance(0.3):
        scenario["hourly_shares"] = [draws.between(0, 10) for _ in range(24)]
    if draws.chance(0.3):
        scenario["serverless"] = {
            "least_ecpu_per_s": draws.size(100, 100_000),
            "least_gb": draws.size(0.1, 100),
        }
    if draws.chance(0.7):
        scenario["nodes"] = {
            "type": draws.one_of(_TYPES),
            "shards": draws.count(1, 30),
            "replicas": draws.one_of((0, 1, 2)),
        }
        if draws.chance(0.2):
            scenario["nodes"]["usd_per_month"] = draws.size(1, 5000)
    return scenario


def _requests(draws: Draws) -> Scenario:
    command = draws.one_of(("get", "get", "set", "script"))
    found: Scenario = {"command": command, "value_bytes": draws.count(1, 100_000)}
    found["per_s"] = draws.size(0.01, 100_000)
    if command == "get":
        found["hit_rate"] = draws.between(0, 1)
    if command == "script":
        found["processor_us"] = draws.size(1, 100_000)
    return found


OTHERS: dict[str, Callable[[Draws], Scenario]] = {
    "cluster": cluster,
    "lookaside": lookaside,
    "serverless": serverless,
    "large_commands": large_commands,
    "node_life": node_life,
    "overcommit": overcommit,
    "memory": memory,
    "cost": cost,
}
"""Scenarios of the kinds beside the node; `lookaside` is a cluster that is a cache."""
