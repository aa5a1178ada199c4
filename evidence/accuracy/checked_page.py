"""Sections of the accuracy page by engine, host and point, and the JSON file beside the page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from forecache.calibration.fit.report import THROUGHPUT
from forecache.models.engines.profile import list_engines

from ..markdown import anchor, table
from .checked import (
    UNITS,
    cells,
    engine_order,
    host_name,
    host_order,
)
from .compared import CATALOGUE, LEAST_POINTS, Compared
from .errors import Errors, errors_of

NOT_CHECKED = "not checked"
_NOTHING = "–"
_FURTHEST = 15

FIELDS: Mapping[str, Mapping[str, str]] = {
    "cells": {
        "engine": "engine and version, as its profile in the catalogue is called",
        "host": "id of the host; captured ones are the project's, the others the catalogue's",
        "host_name": "the host in tables: the processor of a captured one",
        "tier": "what a prediction knew of the engine on the host, in the words of answers",
        "quantity": "what was measured and predicted",
        "unit": "that of `measured`, `predicted`, `low` and `high`",
        "points": "how many were measured and predicted",
        "median_error, p95_error, worst_error": "of absolute errors: 0.05 is 5%",
        "with_interval": "how many predictions have an interval",
        "inside, level": "share of these intervals that hold what was measured, and that should",
        "repeat": "median of `repeat` over the points; null where nothing is known",
        "each": "a list for each point, its values in the order of `columns`",
    },
    "columns": {
        "source": "the artefact that has the point, `docs/accuracy/SOURCE.json`",
        "load": "command, pipeline (P), bytes of a value (v), keys (k), clients (c) and io-threads"
        " (io); of a dataset what differs between its points",
        "measured": "median of the windows, or what the source says",
        "predicted": "without a number fitted to this point",
        "low, high": "ends of the interval; null where there is none",
        "level": "the interval's: 0.95 is 95%",
        "error": "(predicted - measured) / measured",
        "repeat": "by how much the two halves of the point's windows differ; of a published point"
        " the standard deviation of a measurement that its source states; null where nothing is"
        " known",
    },
    "history": {
        "release, date, reason": "when and why the gate's reference was replaced",
        "quantities": "points, median error and intervals by quantity, as predicted then",
    },
}
"""Every field of the file, by the list that has it."""


_HISTORY = ("release", "date", "reason", "quantities")


def json_file(points: Sequence[Compared], history: Sequence[Mapping[str, Any]]) -> str:
    """The file: a line for each point, so that a diff shows which have changed."""
    columns = [name for names in FIELDS["columns"] for name in names.split(", ")]
    past = [json.dumps({name: entry[name] for name in _HISTORY}) for entry in history]
    found = []
    for each, own in cells(points).items():
        errors = {name: _short(value) for name, value in asdict(errors_of(own)).items()}
        names = {"host_name": host_name(each.host), "unit": UNITS[each.quantity]}
        about = {**each._asdict(), **names, **errors}
        rows = ",\n".join(json.dumps(_row(point)) for point in own)
        found.append(f'{json.dumps(about)[:-1]}, "each": [\n{rows}]}}')
    parts = {
        "fields": json.dumps(FIELDS, indent=1),
        "columns": json.dumps(columns),
        "history": "[\n" + ",\n".join(past) + "]",
        "cells": "[\n" + ",\n".join(found) + "]",
    }
    return "{" + ",\n".join(f'"{name}": {text}' for name, text in parts.items()) + "}\n"


def _row(point: Compared) -> list[Any]:
    error = point.predicted / point.measured - 1.0
    numbers = point.measured, point.predicted, point.low, point.high
    level = None if point.low is None else point.level
    rest = level, round(error, 4), None if point.repeat is None else round(point.repeat, 4)
    return [point.place.source, point.place.point, *map(_short, numbers), *rest]


def _short(value: Any) -> Any:
    """Numbers with five significant digits: more would be noise."""
    return float(f"{value:.5g}") if isinstance(value, float) else value


# --- the page ------------------------------------------------------------------------------------


def matrix_section(points: Sequence[Compared]) -> list[str]:
    """Engines by hosts: which tier was checked there, and how far throughput was off."""
    own = [point for point in points if point.place.quantity == THROUGHPUT]
    here = [point for point in own if point.tier != CATALOGUE]
    elsewhere = [point for point in own if point.tier == CATALOGUE]
    checked = {point.place.engine for point in points}
    never = [e.id for e in list_engines() if e.id not in checked]
    return [
        "## By engine and host",
        "",
        "Throughput: the median error, and in brackets by how much repeats of a point differ. An"
        " error no larger than that can't be told from none. *Tier* is what the prediction knew of"
        " the engine on the host, in the words of answers. *Observed here*: the engine was"
        " calibrated on this host. *Anchored here*: the shipped engine, on this host as another"
        " engine found it. *Profiled here*: the shipped engine, on this host as `forecache profile`"
        " found it. *By catalogue*: nothing was measured there. A star marks fewer than"
        f" {LEAST_POINTS} points. An engine's name leads to its other quantities, with the 95th"
        " percentile of errors and how many measurements are inside their intervals.",
        "",
        *_by_tier(here),
        "",
        "Hosts of this table are guests with two CPUs, one for the server's thread and one for the"
        " load generator, so they say nothing of I/O threads. Those of Zen 5 and Xeon 6 were quiet,"
        " that of Zen 3 had busy neighbours, and the cores of Ice Lake were shared most of the time"
        " ([limits.md](limits.md#how-to-read-the-accuracy-figures)). The generation of AMD EPYC was"
        " not recorded.",
        "",
        "*By catalogue*, against published measurements ([datasets.md](datasets.md)), I/O threads"
        " included:",
        "",
        *_by_host(elsewhere),
        "",
        f"No point here is of {', '.join(map(_named, never))}: they take the work of a neighbouring"
        " version, in wider ranges. What others claim and report of some of them is in"
        " [claims.md](claims.md) and [field.md](field.md).",
        "",
        "![Error of throughput by tier, beside what repeats differ by](images/accuracy.png)",
    ]


def _by_tier(points: Sequence[Compared]) -> list[str]:
    """A row for each engine and tier, a column for each host."""
    hosts = sorted({point.place.host for point in points}, key=host_order)
    found = {(c.engine, c.tier, c.host): errors_of(own) for c, own in cells(points).items()}
    rows, above = [], ""
    for engine, tier in dict.fromkeys((engine, tier) for engine, tier, _ in found):
        in_row = [_in_matrix(found.get((engine, tier, host))) for host in hosts]
        rows.append(["" if engine == above else _link(engine), _kept_together(tier), *in_row])
        above = engine
    return table(["engine", "tier", *(f">{host_name(host)}" for host in hosts)], rows)


def _by_host(points: Sequence[Compared]) -> list[str]:
    """A row for each host, a column for each engine; all points are of one tier."""
    found = {(c.host, c.engine): errors_of(own) for c, own in cells(points).items()}
    hosts = sorted({host for host, _ in found}, key=host_order)
    engines = engines_of(points)
    rows = [
        [host_name(host), *(_in_matrix(found.get((host, engine))) for engine in engines)]
        for host in hosts
    ]
    return table(["host", *(f">{_link(engine)}" for engine in engines)], rows)


def _link(engine: str) -> str:
    return f"[{_kept_together(_named(engine))}](#{anchor(_named(engine))})"


def _kept_together(words: str) -> str:
    """On one line, for narrow columns."""
    return words.replace(" ", "\N{NO-BREAK SPACE}")


def _in_matrix(errors: Errors | None) -> str:
    if errors is None:
        return _kept_together(NOT_CHECKED)
    few = " \\*" if errors.points < LEAST_POINTS else ""
    return _kept_together(f"{_two_digits(errors.median_error)} ({_two_digits(errors.repeat)}){few}")


def _two_digits(share: float | None) -> str:
    """Percent with two significant digits: more would be noise."""
    return _percent(share, 0 if share is not None and share >= 0.0995 else 1)


def _named(engine: str) -> str:
    """`valkey-9.1` as `valkey 9.1`."""
    return engine[::-1].replace("-", " ", 1)[::-1]


def _percent(share: float | None, digits: int = 1) -> str:
    return _NOTHING if share is None else f"{share:.{digits}%}"


_ERRORS_HEADER = (
    *(">points", ">median error", ">95% below", ">worst", ">repeats differ by"),
    *(">inside interval", ">should be"),
)


def _errors_cells(points: Sequence[Compared]) -> list[str]:
    errors = errors_of(points)
    inside = _NOTHING
    if errors.inside is not None:
        inside = f"{round(errors.inside * errors.with_interval)} of {errors.with_interval}"
    return [
        *(str(errors.points), f"{errors.median_error:.1%}", f"{errors.p95_error:.1%}"),
        *(f"{errors.worst_error:.1%}", _percent(errors.repeat)),
        *(inside, _percent(errors.level, 0)),
    ]


def engine_table(points: Sequence[Compared], engine: str) -> list[str]:
    """An engine's errors by host, tier and quantity."""
    rows = [
        [host_name(each.host), each.tier, each.quantity, *_errors_cells(own)]
        for each, own in cells(points).items()
        if each.engine == engine
    ]
    return table(["host", "tier", "quantity", *_ERRORS_HEADER], rows)


def engines_of(points: Iterable[Compared]) -> list[str]:
    """Engines that were checked, by name and version."""
    return sorted({point.place.engine for point in points}, key=engine_order)


def engine_title(engine: str) -> str:
    """The heading of an engine's part of the page."""
    return f"### {_named(engine)}"


def mixes_section(points: Sequence[Compared]) -> list[str]:
    """What production sends: many commands at once, by host."""
    rows = []
    for source, what in _MANY.items():
        own = [point for point in points if point.place.source == source]
        for host in sorted({point.place.host for point in own}, key=host_order):
            of_host = [point for point in own if point.place.host == host]
            rows.append([what, host_name(host), of_host[0].tier, *_errors_cells(of_host)])
    return [
        "## Mixes of many commands",
        "",
        "Ten versions under random mixes of 6 to 14 commands, as production sends them"
        " ([generations.md](generations.md#random-mixes-of-commands)), and what such a server can"
        " serve, told from two looks at INFO under a tenth to four fifths of that"
        " ([generations.md](generations.md#what-a-servers-own-numbers-say)). Others measured the"
        " *two servers*, on a Xeon 6 guest that was profiled beside other work; the looks were"
        " taken under 1.5 and 5% of what they serve. The round of Zen 3 is suspect: most of the"
        " time other machines used the other hyperthreads of its cores, and neither the round nor"
        " the host's profile waited for that to end"
        " ([limits.md](limits.md#how-to-read-the-accuracy-figures)).",
        "",
        *table(["what", "host", "tier", *_ERRORS_HEADER], rows),
    ]


_MANY = {
    "mixes": "CPU time per command",
    "looks": "throughput, from INFO",
    "looks-of-others": "throughput of two servers, from INFO",
}
"""Sources of points with many commands, and what they are about."""


def points_section(points: Sequence[Compared]) -> list[str]:
    """Every point: the place of the table to filter, the file, and what is furthest off."""
    furthest = sorted(points, key=lambda p: -abs(np.log(p.predicted / p.measured)))[:_FURTHEST]
    rows = [
        [
            *(_named(p.place.engine), host_name(p.place.host), p.tier, p.place.quantity),
            *(p.place.point, _number(p.measured), _number(p.predicted), _interval(p)),
            *(f"{p.predicted / p.measured - 1.0:+.0%}", _percent(p.repeat, 0)),
        ]
        for p in furthest
    ]
    header = ["engine", "host", "tier", "quantity", "load", ">measured", ">predicted"]
    header += [">interval", ">error", ">repeats differ by"]
    fields = [
        [f"`{of}`", f"`{name}`", words]
        for of, names in FIELDS.items()
        for name, words in names.items()
    ]
    return [
        "## Each point",
        "",
        f"[accuracy.json](accuracy.json) has all {len(points):,}: measured, predicted, interval,"
        " error and what repeats differ by. No number was fitted to any of them. The site that"
        " `make docs` builds shows them here, to be filtered and sorted.",
        "",
        '<div id="accuracy-points"></div>',
        '<script defer src="accuracy.js"></script>',
        '<script defer src="site/accuracy-points.js"></script>',
        "",
        "<details>",
        "<summary>Furthest off</summary>",
        "",
        *table(header, rows),
        "",
        "</details>",
        "",
        "<details>",
        "<summary>Fields of accuracy.json</summary>",
        "",
        "`columns` names the values of a point, in this order.",
        "",
        *table(["list", "field", "meaning"], fields),
        "",
        "</details>",
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000.0 else f"{value:.3g}"


def _interval(point: Compared) -> str:
    if point.low is None or point.high is None:
        return _NOTHING
    return f"{_number(point.low)}–{_number(point.high)}"
