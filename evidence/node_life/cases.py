"""What is measured: scenarios of `kind: node_life`, which a driver makes happen.

A case names its scenario's settings, data and demand. How long it lasts and which rate was kept is
known after the measurement, and given to the prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from forecache.hwprofiles.files import parse
from forecache.models.over_time.node_life.schema import NodeLife
from forecache.models.scenario.versions import version_numbers

Data = dict[str, Any]

KEYS = 100_000
_MAXMEMORY_BYTES = 6 * 2**20
READS_RPS = 20_000
WARM_S, WINDOW_S, WINDOWS = 14.0, 6.0, 3
REPORT_S = 1.0

SIZES = {"distribution": "weighted", "values": [16, 100, 900], "weights": [0.45, 0.45, 0.1]}

_ZIPF, _FLAT = {"zipf": 0.99}, {"zipf": 0.7}
_HOT = {"hot_set": {"keys": 0.1, "requests": 0.8}}
_TTL: Data = {"ttl_s": {"from_s": 5, "to_s": 60}}


@dataclass(frozen=True)
class Case:
    """One thing that is measured of every engine that has it.

    Attributes
    ----------
    basic
        Whether it is measured of all engines, or only of those in `FULLY`.
    since
        First versions that have its policy, by engine; all engines if empty.
    """

    name: str
    settings: Data = field(default_factory=dict)
    data: Data = field(default_factory=dict)
    rate_rps: float = READS_RPS
    basic: bool = False
    since: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def of(self, engine: str, version: str) -> bool:
        """Whether an engine is measured in this case."""
        if self.since and engine not in self.since:
            return False
        least = self.since.get(engine, ())
        numbers = tuple(version_numbers(version))
        return numbers >= least and (self.basic or f"{engine}-{version}" in FULLY)


ENGINES = (
    *("redis-2.8.19", "redis-3.2.6", "redis-5.0.6", "redis-6.2.11", "redis-7.0.15"),
    *("redis-8.6.3", "valkey-8.0.1", "valkey-8.1.1", "valkey-9.1.2"),
)
FULLY = ("redis-5.0.6", "redis-7.0.15", "redis-8.6.3", "valkey-9.1.2")
"""Engines that are measured in all cases."""

_LFU = {"redis": (4, 0), "valkey": (7, 2)}


def _hits(name: str, policy: str, popularity: Data, *, samples: int = 5, **more: Any) -> Case:
    case = {key: more.pop(key) for key in ("basic", "since") if key in more}
    return Case(
        name,
        settings={
            "maxmemory_bytes": _MAXMEMORY_BYTES,
            "maxmemory_policy": policy,
            "maxmemory_samples": samples,
        },
        data={"keys": KEYS, "value_bytes": 100, "popularity": popularity, **more},
        **case,
    )


HITS = (
    _hits("lru, zipf 0.99", "allkeys-lru", _ZIPF, basic=True),
    _hits("lru, zipf 0.7", "allkeys-lru", _FLAT),
    _hits("lru, hot set", "allkeys-lru", _HOT),
    _hits("lru, 1 sample", "allkeys-lru", _ZIPF, samples=1),
    _hits("lru, 10 samples", "allkeys-lru", _ZIPF, samples=10),
    _hits("lru, three sizes", "allkeys-lru", _ZIPF, value_bytes=SIZES),
    _hits("lfu, zipf 0.99", "allkeys-lfu", _ZIPF, basic=True, since=_LFU),
    _hits("lfu, zipf 0.7", "allkeys-lfu", _FLAT, since=_LFU),
    _hits("random, zipf 0.99", "allkeys-random", _ZIPF, basic=True),
    _hits("volatile-ttl", "volatile-ttl", _ZIPF, basic=True, **_TTL),
    _hits("volatile-lru, 85% of the keys", "volatile-lru", _ZIPF, ttl=0.85, **_TTL),
    _hits("lrm, zipf 0.99", "allkeys-lrm", _ZIPF, since={"redis": (8, 6)}),
)


def _expiry(
    name: str, rate_rps: float, from_s: float, to_s: float, *, basic: bool = False, **settings: Any
) -> Case:
    return Case(
        name,
        settings=settings,
        data={
            "keys": 400_000,
            "value_bytes": 32,
            "ttl_s": {"from_s": from_s, "to_s": to_s},
        },
        rate_rps=rate_rps,
        basic=basic,
        since={"redis": (6, 0), "valkey": (7, 2)} if "active_expire_effort" in settings else {},
    )


EXPIRY = (
    _expiry("10,000 SETs/s, 2 to 8 s", 10_000, 2, 8, basic=True),
    _expiry("5,000 SETs/s, 10 s", 5_000, 10, 10, basic=True),
    _expiry("20,000 SETs/s, 1 to 3 s", 20_000, 1, 3),
    _expiry("10,000 SETs/s, 2 to 8 s, hz 100", 10_000, 2, 8, hz=100),
    _expiry("10,000 SETs/s, 2 to 8 s, effort 10", 10_000, 2, 8, active_expire_effort=10),
)
STEADY_S, LOOK_S = 14.0, 0.5


def _mass(name: str, *, basic: bool = False, **settings: Any) -> Case:
    return Case(
        name,
        settings=settings,
        data={"keys": MASS_KEYS, "value_bytes": 32, "ttl_s": MASS_TTL_S},
        rate_rps=1.0,
        basic=basic,
        since={"redis": (6, 0), "valkey": (7, 2)} if "active_expire_effort" in settings else {},
    )


MASS_KEYS, MASS_TTL_S = 200_000, 20.0
MASS = (
    _mass("hz 10", basic=True),
    _mass("hz 100", hz=100),
    _mass("effort 10", active_expire_effort=10),
)

GROWN_KEYS, GROWTH_S, GROWTH_LOOK_S, GROWTH_MORE_S = 270_000, 18.0, 0.1, 6.0
GROWTH = (
    Case(
        "270,000 keys in 18 s",
        data={"keys": GROWN_KEYS, "value_bytes": 100},
        rate_rps=GROWN_KEYS / GROWTH_S,
        basic=True,
    ),
)


def scenario_of(
    case: Case, engine: str, *, duration_s: float, rate_rps: float, host: str, **more: Any
) -> NodeLife:
    """The scenario of a case on an engine, `redis-7.0.15`, say, that begins empty."""
    name, _, version = engine.rpartition("-")
    said = {
        "kind": "node_life",
        "duration_s": duration_s,
        "host": host,
        "engine": name,
        "engine_version": ".".join(version.split(".")[:2]),
        "settings": case.settings,
        "data": {"begins": "empty", **case.data},
        "demand": {"rate_rps": rate_rps, "mix": {"get": 1}},
        **more,
    }
    return parse(NodeLife, said, file=case.name)
