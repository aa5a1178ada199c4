"""What versions do differently where keys expire and are evicted.

Read in the engines' sources: `evict.c` (`evictionPoolPopulate`, `performEvictions`) and `expire.c`
(`activeExpireCycle`) of Redis 6.0 to 8.0 and Valkey 8, `redis.c` of 2.8 and `server.c` of 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from forecache.hwprofiles.files import FieldError

from ...scenario.versions import version_numbers
from .keyspace import CONSTANTS

MaxmemoryPolicy = Literal[
    "noeviction",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-lrm",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-lrm",
    "volatile-random",
    "volatile-ttl",
]

_RULES = {
    "noeviction": "KEEP",
    "lru": "LEAST_RECENT",
    "lfu": "LEAST_FREQUENT",
    "lrm": "LEAST_MODIFIED",
    "random": "ANY",
    "ttl": "SHORTEST_TTL",
}
_SINCE = {"lfu": {"redis": (4, 0), "valkey": (7, 2)}, "lrm": {"redis": (8, 6)}}
"""First version of each engine that has a policy which not all have."""

_KEYS_PER_LOOP = 20
"""ACTIVE_EXPIRE_CYCLE_KEYS_PER_LOOP, and before 6.0 ACTIVE_EXPIRE_CYCLE_LOOKUPS_PER_LOOP."""


@dataclass(frozen=True)
class LifeRules:
    """Eviction and expiry as a version does them.

    Attributes
    ----------
    policy
        Of `native/keyspace.h`.
    is_volatile
        Whether only keys with a time to live are evicted.
    has_pool
        Whether candidates for eviction are kept from one eviction to the next (from 3.0 on).
    scans
        Whether expiry cycles go through the keys in turn (from 6.0 on); they draw them before.
    sample
        Keys that a cycle looks at before it decides whether to go on.
    accepted
        Share of them that may have expired without another look.
    slow_limit_s, fast_limit_s
        The longest that a cycle of the timer takes, and one before the event loop sleeps.
    """

    policy: int
    is_volatile: bool
    has_pool: bool
    scans: bool
    sample: float
    accepted: float
    slow_limit_s: float
    fast_limit_s: float


def _which(policy: str) -> str:
    """What a policy goes by: `lru` of `allkeys-lru`."""
    return policy.partition("-")[2] or policy


def _has(engine: str, numbers: tuple[int, ...], policy: str) -> bool:
    since = _SINCE.get(_which(policy))
    return since is None or (engine in since and numbers >= since[engine])


def life_rules(engine: str, version: str, *, policy: str, hz: int, effort: int) -> LifeRules:
    """The rules of a version.

    Parameters
    ----------
    engine
        redis or valkey.
    effort
        `active-expire-effort`, 1 to 10.

    Raises
    ------
    FieldError
        It has no such policy.
    """
    numbers = tuple(version_numbers(version))
    known = [each for each in get_args(MaxmemoryPolicy) if _has(engine, numbers, each)]
    if policy not in known:
        valid = f"{', '.join(known)} with {engine} {version}"
        raise FieldError("settings.maxmemory_policy", found=policy, valid=valid)
    scans = engine == "valkey" or numbers >= (6, 0)
    more = effort - 1 if scans else 0
    return LifeRules(
        policy=CONSTANTS[_RULES[_which(policy)]],
        is_volatile=policy.startswith("volatile"),
        has_pool=engine == "valkey" or numbers >= (3, 0),
        scans=scans,
        sample=_KEYS_PER_LOOP + _KEYS_PER_LOOP // 4 * more,
        accepted=(10 - more) / 100 if scans else 0.25,
        slow_limit_s=(25 + 2 * more) / 100 / hz,
        fast_limit_s=1e-3 + 0.25e-3 * more,
    )
