"""Which operations of a plan the commands of an engine are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from forecache.models.scenario.command_table import COMMANDS

OPERATIONS = {each: name for name, row in COMMANDS.items() for each in (name, *row.also)}
"""Operations of a plan by the names under which INFO counts them."""

ON_STRINGS = frozenset(("get", "set", "mget", "mset"))
"""Operations that any engine has, whose bytes tell sizes of keys and values."""

_READS = (
    "getex getrange substr strlen getbit exists ttl pttl type hget hexists hlen hstrlen zscore "
    "zrank zcard sismember scard llen lindex touch object"
)
_WRITES = (
    "getset getdel append setrange setbit incr incrby incrbyfloat decr decrby expire pexpire "
    "expireat pexpireat persist del unlink hset hsetnx hmset hdel hincrby hincrbyfloat sadd srem "
    "spop lpush rpush lpushx rpushx lpop rpop lset zadd zrem zincrby zpopmin zpopmax xadd xack "
    "pfadd rename copy"
)
ALIKE = dict.fromkeys(_READS.split(), "get") | dict.fromkeys(_WRITES.split(), "set")
"""Commands of one key, and the operation that each is counted as where it is none itself: the table
doesn't have it, or nobody counted it on today's engine."""

_CONNECTIONS = (
    "ping echo auth hello quit select client command subscribe unsubscribe psubscribe punsubscribe "
    "ssubscribe sunsubscribe multi exec discard watch unwatch asking readonly readwrite wait reset"
)
_SERVER = (
    "config info cluster replconf psync sync slowlog commandlog latency memory monitor debug role "
    "save bgsave bgrewriteaof lastsave shutdown replicaof slaveof acl module time dbsize failover "
    "script function"
)
_ADMINISTRATION = frozenset(f"{_CONNECTIONS} {_SERVER}".split())
"""Of connections, transactions and administration: no demand."""


LEAST_CALLS = 100.0
"""Calls of an operation whose mean time tells what one takes."""


def is_demand(command: str) -> bool:
    """Whether a command, in small letters, is asked by clients for its own sake."""
    return command.split("|")[0] not in _ADMINISTRATION


SLOW_US = 1000.0
"""A command on more than strings that runs as long on average is a slow one."""


@dataclass(frozen=True)
class OperationCounts:
    """The commands of some time as operations of a plan.

    Attributes
    ----------
    calls
        Of each operation.
    alike
        Calls of commands of one key that were counted as GET or SET.
    unknown
        Calls of others, counted as GET.
    slow
        Calls and time in us of those that run long.
    time_us
        Of all commands but administration; `known_us` of those that plans know.
    not_modelled_us
        Execution time that no operation stands for, by command: all time of `unknown`, and of
        `alike` what exceeds the time of as many GETs or SETs.
    on
        Operations that plans may have.
    """

    calls: Mapping[str, float]
    alike: Mapping[str, float]
    unknown: Mapping[str, float]
    slow: Mapping[str, tuple[float, float]]
    time_us: float
    known_us: float
    not_modelled_us: Mapping[str, float]
    on: Collection[str]

    @property
    def total(self) -> float:
        """Calls of all operations."""
        return sum(self.calls.values())

    def knows(self, command: str) -> bool:
        """Whether a command is one of these operations, or would be counted as GET or SET."""
        return OPERATIONS.get(command) in self.on

    @property
    def all_known(self) -> bool:
        """Whether hardly anything was asked that is counted as GET or SET and is neither."""
        return sum(self.alike.values()) + sum(self.unknown.values()) <= 0.01 * self.total

    @property
    def only_known(self) -> bool:
        """Whether hardly anything else was asked: bytes and look-ups are those of operations."""
        known = sum(self.calls.get(name, 0.0) for name in ON_STRINGS)
        others = sum(self.alike.values()) + sum(self.unknown.values()) + self.total - known
        return others <= 0.01 * self.total


def operation_counts(
    counts: Mapping[str, tuple[float, float]], *, on: Collection[str] = ON_STRINGS
) -> OperationCounts:
    """Place commands.

    Parameters
    ----------
    counts
        By command: calls, and time in us.
    on
        Operations that a plan may have.
    """
    same = {name: each for name, each in OPERATIONS.items() if each in on}
    calls: dict[str, float] = {}
    each_us = mean_times_us(counts)
    not_modelled_us: dict[str, float] = {}
    alike: dict[str, float] = {}
    unknown: dict[str, float] = {}
    slow: dict[str, tuple[float, float]] = {}
    time_us = known_us = 0.0
    for name, (count, spent_us) in counts.items():
        if count <= 0 or not is_demand(name):
            continue
        time_us += spent_us
        long = spent_us >= SLOW_US * count
        if name in same and not (long and same[name] not in ON_STRINGS):
            known_us += spent_us
            calls[same[name]] = calls.get(same[name], 0.0) + count
        elif long:
            slow[name] = count, spent_us
        else:
            as_operation = ALIKE.get(name, "get")
            calls[as_operation] = calls.get(as_operation, 0.0) + count
            (alike if name in ALIKE else unknown)[name] = count
            modelled_us = count * each_us.get(as_operation, 0.0) if name in ALIKE else 0.0
            if spent_us > modelled_us:
                not_modelled_us[name] = spent_us - modelled_us
    return OperationCounts(calls, alike, unknown, slow, time_us, known_us, not_modelled_us, on)


def mean_times_us(counts: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Mean execution time of one GET and of one SET, as far as enough of them were called.

    If one of the two is missing, the other one's time stands for both.

    Parameters
    ----------
    counts
        By command: calls, and time in us.
    """
    found: dict[str, float] = {}
    for operation in ("get", "set"):
        alike = [each for name, each in counts.items() if OPERATIONS.get(name) == operation]
        calls = sum(each for each, _ in alike)
        if calls >= LEAST_CALLS:
            found[operation] = sum(spent_us for _, spent_us in alike) / calls
    for one, other in (("get", "set"), ("set", "get")):
        if one not in found and other in found:
            found[one] = found[other]
    return found
