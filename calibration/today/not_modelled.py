"""How much of a node's execution time no operation of a plan stands for, and what would tell it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from forecache.models.engines.profile import load_engine
from forecache.models.scenario.command_table import COMMANDS
from forecache.sim.errors import InputError

from .commands import ON_COLLECTIONS, SAME, Placed, mean_times_us
from .nodes import TodaysNode

MOST_NOT_MODELLED = 0.2
"""Share of the execution time up to which a plan and a ceiling are given."""

_NAMED = 4
_NEEDS_KEYS = frozenset(
    name for name, each in ON_COLLECTIONS.items() if COMMANDS[each].touches != "range"
)
"""Modelled once it is known what hashes and sorted sets are like."""


def shares_not_modelled(
    node: TodaysNode, *, assumed: Mapping[str, int], left_out: Collection[str]
) -> dict[str, float]:
    """Share of a node's execution time by command that the demand does not stand for.

    Execution time is the `usec` of commandstats. Of a command whose number of keys or elements is
    assumed, what counts is the time beyond that of so many GETs or SETs; of a range of a sorted
    set, whose members take far less than a GET each, all of its time. Where a server counts no
    time, calls take its place.

    Parameters
    ----------
    assumed
        Keys or elements of one operation, of operations for which nothing tells their number.
    left_out
        Operations, and commands that run long, that the demand leaves out.

    Returns
    -------
    dict
        The largest first.
    """
    placed = node.placed
    if placed.time_us <= 0.0:
        calls = placed.total + sum(count for count, _ in placed.slow.values())
        return _largest({name: count / calls for name, count in placed.unknown.items()})
    found = dict(placed.not_modelled_us)
    each_us = mean_times_us(node.counts)
    for name, (calls, spent_us) in node.counts.items():
        operation = SAME.get(name, ON_COLLECTIONS.get(name, "")) if placed.knows(name) else ""
        if operation in left_out or (name in placed.slow and name in left_out):
            found[name] = spent_us
        elif operation in assumed and calls > 0:
            row = COMMANDS[operation]
            one_us = each_us.get("set" if row.writes else "get")
            modelled_us = 0.0
            if one_us is not None and row.touches != "range":
                modelled_us = calls * assumed[operation] * one_us
            found[name] = max(0.0, spent_us - modelled_us)
    return _largest({name: us / placed.time_us for name, us in found.items()})


def _largest(shares: Mapping[str, float]) -> dict[str, float]:
    named = sorted(shares.items(), key=lambda each: -each[1])
    return {name: share for name, share in named if share > 0.0}


def what_is_needed(
    node: TodaysNode, shares: Mapping[str, float], *, placed: Placed, keys_known: bool
) -> str:
    """What to give so that the demand stands for these commands; empty if it does well enough."""
    total = sum(shares.values())
    if total <= MOST_NOT_MODELLED:
        return ""
    listed = [f"{name.upper()} {share:.0%}" for name, share in list(shares.items())[:_NAMED]]
    more = f" and {len(shares) - _NAMED} more" if len(shares) > _NAMED else ""
    with_keys = [] if keys_known else _with_keys(node, shares)
    files = (
        f" Files of keys (valkey-cli --rdb, or --bigkeys) would do for {_words(with_keys)}."
        if with_keys
        else ""
    )
    of = "execution time" if placed.time_us > 0.0 else "commands"
    return (
        f"{node.file}: {total:.0%} of the {of} is not modelled ({', '.join(listed)}{more}), more "
        f"than {MOST_NOT_MODELLED:.0%}, so that no capacity, headroom or plan can be given. Give "
        "a scenario of kind plan whose demand.operations has modelled commands, with their keys, "
        f"members or fields, that do as much work.{files}"
    )


def _with_keys(node: TodaysNode, shares: Mapping[str, float]) -> list[str]:
    """Commands that files of keys would make part of the model."""
    try:
        work = load_engine(*node.last.engine).commands
    except InputError:
        return []
    return [name for name in shares if name in _NEEDS_KEYS] if work else []


def _words(names: Sequence[str]) -> str:
    upper = [name.upper() for name in names]
    return upper[0] if len(upper) == 1 else f"{', '.join(upper[:-1])} and {upper[-1]}"
