"""What commands beyond GET and SET take, from the instructions that were counted of each."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from forecache.hwprofiles.quantity import Quantity
from forecache.models.engines.commands import (
    ARGUMENT,
    CALLING,
    COMMAND_WORK,
    LOG,
    LOG_WORD,
    CommandKind,
    work_terms,
)
from forecache.models.scenario.command_table import COMMANDS

from ..bundle.profiles import ITEM_BYTES, CommandCounts, CountedPoint

DIGITS = 7
"""Of members that are whole numbers."""

MAKES_OBJECTS = frozenset(("hscan", "sscan", "zscan"))
"""Commands that make an object for each item of their reply, by functions that count as parsing."""

RANGE = 1.1
"""Half width of the range of a count as a factor: the count is exact, how it depends on sizes, on
scores and on what else the engine is asked to do, is not."""


def command_leaves(counts: CommandCounts, *, source: str) -> dict[str, Quantity]:
    """The work that counts of all points say, by the names of `COMMAND_WORK`.

    Each command in each encoding is a line through its points.
    """
    kinds = [(kind_of(row), row) for row in counts.points]
    words = [(kind.arguments, row.parse) for kind, row in kinds if kind.command in ("get", "mget")]
    arguments, parsed = np.array(words).T
    slope, base = np.polyfit(arguments, parsed, 1)
    found = {ARGUMENT: _leaf(float(slope), 0.0, source, f"{len(words)} points")}
    groups: dict[tuple[str, ...], list[tuple[list[float], float]]] = {}
    for kind, row in kinds:
        if terms := work_terms(kind):
            counted = [float(times) for times in terms.values()]
            done = row.execute
            if kind.command in MAKES_OBJECTS:
                done += max(0.0, row.parse - (base + slope * kind.arguments))
            groups.setdefault(tuple(terms), []).append((counted, done))
    for names, rows in groups.items():
        matrix = np.array([row[0] for row in rows])
        seen = np.array([row[1] for row in rows])
        fitted, worst = _line(matrix, seen)
        for name, value in zip(names, fitted, strict=True):
            how = f"{len(rows)} points, none further than {worst:.0%} from the line"
            found[name] = _leaf(float(value), worst, source, how)
    found |= _log_leaves(counts, source=source)
    found |= _calling_leaves(counts, source=source, parsing=(float(base), float(slope)))
    return {name: found[name] for name in COMMAND_WORK if name in found}


def _line(matrix: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, float]:
    """Least squares of the relative error, none below zero, and how far a point is off at most."""
    fitted, _ = nnls(matrix / seen[:, None], np.ones(len(seen)))
    return fitted, float(np.max(np.abs(matrix @ fitted / seen - 1.0)))


def _calling_leaves(
    counts: CommandCounts, *, source: str, parsing: tuple[float, float]
) -> dict[str, Quantity]:
    """What MULTI and EXEC, or an EVALSHA, take beyond the GETs they call.

    Parameters
    ----------
    parsing
        Instructions of parsing a request, and each of its words: a script takes more, since words
        are made for each call again.
    """
    base, slope = parsing
    get = next(row.execute for row in counts.points if row.command == "get")
    found = {}
    for how, names in CALLING.items():
        rows = [row for row in counts.calling if row.how == how]
        if not rows:
            continue
        matrix = np.array([[1.0, row.calls] for row in rows])
        seen = np.array([row.execute - row.calls * get for row in rows])
        if how == "script":
            parsed = [base + slope * (3 + row.calls) for row in rows]
            seen += np.maximum(0.0, [row.parse for row in rows] - np.array(parsed))
        fitted, worst = _line(matrix, seen)
        said = f"{len(rows)} points, none further than {worst:.0%} from the line"
        for name, value in zip(names, fitted, strict=True):
            found[name] = _leaf(float(value), worst, source, said)
    return found


def _log_leaves(counts: CommandCounts, *, source: str) -> dict[str, Quantity]:
    """What the append-only file adds to a write, by its words."""
    plain = {(r.command, r.items, r.size): r for r in counts.points}
    terms, more = [], []
    for row in counts.logged:
        before = plain[row.command, row.items, row.size]
        terms.append([1.0, float(kind_of(row).arguments)])
        more.append(row.execute + row.parse - before.execute - before.parse)
    matrix, seen = np.array(terms), np.array(more)
    fitted, worst = _line(matrix, seen)
    how = f"{len(seen)} writes with and without a log, none further than {worst:.0%} from the line"
    names = zip((LOG, LOG_WORD), fitted, strict=True)
    return {name: _leaf(float(value), worst, source, how) for name, value in names}


def kind_of(row: CountedPoint) -> CommandKind:
    """The command at a point, as an engine meets it."""
    integers = row.integers
    without_values = COMMANDS[row.command].type in ("sorted_set", "set", "list")
    return CommandKind(
        row.command,
        0 if without_values else row.value_bytes,
        share=1.0,
        items=row.items,
        size=row.size,
        item_bytes=(DIGITS if integers else ITEM_BYTES) if row.size else 0,
        integers=integers,
    )


def counted_leaf(value: float, factor: float, *, source: str, method: str) -> Quantity:
    """Instructions with their range, a factor to either side, in four digits."""
    return Quantity(
        value=float(f"{value:.4g}"),
        unit="instructions",
        kind="measured",
        source=source,
        low=float(f"{value / factor:.4g}"),
        high=float(f"{value * factor:.4g}"),
        method=method,
    )


def _leaf(value: float, worst: float, source: str, how: str) -> Quantity:
    method = f"counted with callgrind, {how}"
    return counted_leaf(value, max(RANGE, 1.0 + worst), source=source, method=method)
