"""What handing over between threads takes, from the counts of `hand_over_counts`.

The study `hand-over-work` writes these numbers into the shipped engine profiles. Which functions a
number is made of stands in `RULES`, by engine profile: docs/models.md says why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from forecache.calibration.fit.command_work import counted_leaf
from forecache.calibration.fit.prior import prior_error
from forecache.hwprofiles.files import dump_yaml, parse, read_yaml
from forecache.hwprofiles.quantity import Quantity
from forecache.models.engines.profile import EngineProfile

from ..harness import Asked, Files
from .hand_over_counts import FOLDER, TOTAL, Spent, read_counts

ENGINES = Path("models/engines")

SOURCE = "hand-over-counts"

RANGE = 1.25
"""Half width of the range of a count as a factor, for another compiler and another architecture: C
code compiled for arm64 and for x86-64 takes numbers of instructions that differ by up to a fifth.
Counts that differ by more from load to load have a range as wide as that."""

ALONE = (1, 1)
"""Pipeline and clients of the load under which nearly all turns find nothing."""

Functions = Mapping[str, Spent]


@dataclass(frozen=True)
class Part:
    """What some functions take, per call of others.

    Attributes
    ----------
    thread
        Whose calls count.
    of, without
        Functions whose instructions, with all that they call, count, and functions that these call
        whose instructions don't.
    per
        Functions whose calls are counted; those of `of` if left out.
    share
        Part of the instructions that counts, or how often they are spent.
    idle
        Function that mostly finds nothing to do: what these calls take, as under the load of one
        client, where nearly all are such, doesn't count.
    loads
        The loads that tell, as `(pipeline, clients)`; all of them if empty.
    """

    thread: Literal["main", "io"]
    of: tuple[str, ...]
    without: tuple[str, ...] = ()
    per: tuple[str, ...] = ()
    share: float = 1.0
    idle: str = ""
    loads: tuple[tuple[int, int], ...] = ()

    def instructions(self, functions: Functions, *, alone: Functions | None = None) -> float:
        """Per call, under one load; nan if it has no such calls, or the shorter load had more.

        Parameters
        ----------
        alone
            The same thread under the load of one client, for `idle`.
        """
        spent = self._spent(functions)
        if self.idle:
            assert alone is not None
            spent -= functions[self.idle].calls * self._spent(alone) / alone[self.idle].calls
        if any(_of(functions, name).calls < 0.0 for name in self.of):
            return math.nan
        calls = sum(_of(functions, name).calls for name in self.per or self.of)
        return self.share * spent / calls if calls else math.nan

    def _spent(self, functions: Functions) -> float:
        return sum(_of(functions, name).instructions for name in self.of) - sum(
            _of(functions, name).instructions for name in self.without
        )


def _of(functions: Functions, name: str) -> Spent:
    return functions.get(name, Spent(0.0, 0.0))


@dataclass(frozen=True)
class Rule:
    """How a number is made: the sum of some parts, and in words."""

    parts: tuple[Part, ...]
    method: str


def counted(rule: Rule, points: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """A number, and by what factor loads differ in it.

    Each part is the mean over the loads that tell it.

    Parameters
    ----------
    points
        From `read_counts`.

    Raises
    ------
    ValueError
        No load calls the functions of a part.
    """
    value, low, high = 0.0, 0.0, 0.0
    alone = next((p for p in points if (p["pipeline"], p["clients"]) == ALONE), None)
    for part in rule.parts:
        idle = alone["threads"][part.thread] if alone else None
        found = [
            part.instructions(point["threads"][part.thread], alone=idle)
            for point in points
            if not part.loads or (point["pipeline"], point["clients"]) in part.loads
        ]
        found = [each for each in found if not math.isnan(each)]
        if not found:
            raise ValueError(f"calls of {' and '.join(part.per or part.of)}")
        value += sum(found) / len(found)
        low, high = low + min(found), high + max(found)
    return value, max(value / low, high / value)


def leaves(rules: Mapping[str, Rule], points: Sequence[Mapping[str, Any]]) -> dict[str, Quantity]:
    """The counted numbers of an engine, by the names of its work."""
    found = {}
    for name, rule in rules.items():
        value, differ = counted(rule, points)
        method = f"counted with callgrind: {rule.method}"
        found[name] = counted_leaf(value, max(RANGE, differ), source=SOURCE, method=method)
    return found


_SINGLE = ((1, 20),)
_BATCHES = ((1, 20), (10, 20))

_PUSH = Rule(
    (
        Part("main", ("readQueryFromClient",), share=0.5),
        Part("main", ("trySendWriteToIOThreads",), share=0.5, loads=_BATCHES),
    ),
    "the mean of readQueryFromClient and trySendWriteToIOThreads on the main thread",
)
_COMMAND_LOOKUP = Rule((Part("io", ("lookupCommandLogic",)),), "lookupCommandLogic")
_PREFETCH = Rule(
    (
        Part(
            "main",
            ("addCommandToBatchAndProcessIfFull",),
            without=("addCommandToBatchAndProcessIfFull > processClientsCommandsBatch",),
            per=("getKeysFromCommand",),
            loads=_BATCHES,
        ),
        Part(
            "main",
            ("processClientsCommandsBatch",),
            without=("processPendingCommandAndInputBuffer", "beforeNextClient"),
            per=("getKeysFromCommand",),
            idle="processClientsCommandsBatch",
            loads=_BATCHES,
        ),
    ),
    "addCommandToBatchAndProcessIfFull and processClientsCommandsBatch by key, without executing",
)
_VALKEY_8 = {
    "push_instructions": _PUSH,
    "done_instructions": Rule(
        (
            Part("main", ("processClientIOWriteDone",)),
            Part(
                "main",
                (
                    *("handleReadResult", "handleParseResults"),
                    "processIOThreadsReadDone > listUnlinkNode",
                ),
                per=("handleReadResult",),
                loads=_SINGLE,
            ),
        ),
        "processClientIOWriteDone, and of a finished read handleReadResult, handleParseResults and "
        "its way off the list",
    ),
    "command_lookup_instructions": _COMMAND_LOOKUP,
    "prefetch_instructions_per_key": _PREFETCH,
}

_VALKEY_9_1 = {
    "push_instructions": _PUSH,
    "pop_instructions": Rule(
        (
            Part(
                "io",
                (TOTAL,),
                without=(
                    *("ioThreadReadQueryFromClient", "ioThreadWriteToClient"),
                    *("ioThreadFreeArgv", "ioThreadFreeObj", "ioThreadPoll"),
                ),
                per=("spmcDequeue",),
            ),
            Part("io", ("sendToMainThread",)),
            Part("main", ("postWriteToClient",), share=-0.5),
        ),
        "a turn of the thread's loop and sendToMainThread, without half of postWriteToClient, "
        "which is in write_instructions and falls to the main thread",
    ),
    "done_instructions": Rule(
        (Part("main", ("processClientIOWriteDone",)),), "processClientIOWriteDone"
    ),
    "collect_instructions": Rule(
        (
            Part(
                "main",
                ("processClientIOReadsDone",),
                without=("addCommandToBatchAndProcessIfFull",),
                share=0.5,
            ),
        ),
        "processClientIOReadsDone without what it looks up and executes, half of it for each of a "
        "request's two responses",
    ),
    "command_lookup_instructions": _COMMAND_LOOKUP,
}

_CLIENT_BY_MAIN = Part(
    "main",
    ("processClientsFromIOThread",),
    without=(
        *("processPendingCommandAndInputBuffer", "prefetchIOThreadCommands"),
        "freeClient",
    ),
    per=("processPendingCommandAndInputBuffer",),
    share=0.5,
    loads=_BATCHES,
)

_REDIS_8_6 = {
    "push_instructions": Rule(
        (_CLIENT_BY_MAIN,),
        "half of processClientsFromIOThread without what it looks up and executes",
    ),
    "collect_instructions": Rule(
        (_CLIENT_BY_MAIN,),
        "half of processClientsFromIOThread without what it looks up and executes",
    ),
    "command_lookup_instructions": Rule(
        (Part("io", ("preprocessCommand",)),),
        "preprocessCommand, which finds the command and its keys",
    ),
}

_VALKEY_8_0 = {n: rule for n, rule in _VALKEY_8.items() if n != "command_lookup_instructions"}

RULES: dict[str, tuple[str, dict[str, Rule]]] = {
    "redis-8.6": ("redis-8.6.3", _REDIS_8_6),
    "valkey-8.0": ("valkey-8.1.1", _VALKEY_8_0),
    "valkey-8.1": ("valkey-8.1.1", _VALKEY_8),
    "valkey-9.1": ("valkey-9.1.2", _VALKEY_9_1),
}
"""By engine profile, the version that was counted for it, and how its numbers are made. Valkey 8.0
hands over and looks up together as 8.1 does, though in another table."""


def profiles(_asked: Asked) -> Files:
    """The shipped engine profiles with the work of handing over that was counted."""
    files: dict[Path, str | bytes] = {}
    for profile_id, (engine, rules) in RULES.items():
        counts = FOLDER / f"{engine}.json"
        found = leaves(rules, read_counts(counts))
        path = ENGINES / f"{profile_id}.yaml"
        data = dict(read_yaml(path))
        fitted = {name: data[name] for name in ("covariance", "host_covariance")}
        data |= known_apart(fitted, found)
        source = {
            "title": f"forecache: calls between the threads of {engine}, in valgrind",
            "file": str(counts),
            "accessed": json.loads(counts.read_text(encoding="utf-8"))["date"],
        }
        data["sources"] = {**data["sources"], SOURCE: source}
        data["work"] |= {name: leaf.model_dump(mode="json") for name, leaf in found.items()}
        parse(EngineProfile, data, file=path)
        files[path] = dump_yaml(data)
    return files


def known_apart(
    covariances: Mapping[str, Mapping[str, Mapping[str, float]]], counted: Mapping[str, Quantity]
) -> dict[str, dict[str, dict[str, float]]]:
    """Covariances of a fit, of which some numbers have been counted since.

    These depend on nothing that was fitted, and their own variance is that of their range.
    """
    tables = {}
    for title, table in covariances.items():
        tables[title] = {
            row: {
                name: value
                if row not in counted and name not in counted
                else float(f"{prior_error(counted[row]) ** 2:.4g}")
                if row == name
                else 0.0
                for name, value in columns.items()
            }
            for row, columns in table.items()
        }
    return tables
