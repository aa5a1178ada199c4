"""What live servers say of the footprint model's errors, and how many comparisons intervals hold.

The data of a population are what a server holds beside what it holds without data, so the residual
of the data takes the server as measured before they were written. Populations of a type in one
version give the relative standard error of that type there, with a weak prior that counts as one
of them. For versions that nobody measured, the errors of a type are those with which versions were
first predicted: each version counts once, since its populations share what is wrong of it. Large
strings and cluster mode are left out of these: there allocators, spare room and tables of slots
were wrong, for which there are rules now, and not how a version lays out a type.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from forecache.hwprofiles.files import dump_yaml
from forecache.models.footprint.errors import (
    AllocatorFamily,
    FootprintErrors,
    VersionErrors,
    allocator_family,
    resident_ends,
    used_interval,
)
from forecache.models.footprint.schema import MemoryScenario
from forecache.models.footprint.weigh import COMMAND_BYTES, Weight, beside_of, node_of, weigh
from forecache.models.layouts.generations import Generation, generation
from forecache.models.results.intervals import RelativeError

from .footprint_load import commands_of

Row = Mapping[str, Any]

OWN_COMMANDS = 2
"""PING and INFO, which the check itself sends."""

USUAL = 0.002
"""What is believed of a type before it was measured in a version whose source was read."""

TYPES = ("string", "set", "hash", "sorted_set", "list")


def scenario_of(engine: Row, row: Row) -> MemoryScenario:
    """What was measured, as a scenario."""
    base = MemoryScenario.model_validate(
        {
            "engine": engine["name"],
            "engine_version": engine["version"],
            "allocator": engine["allocator"],
            "cluster": row["cluster"],
            "data": [row["data"]],
        }
    )
    # In cluster mode CLUSTER ADDSLOTSRANGE and CLUSTER INFO too.
    commands = OWN_COMMANDS + commands_of(base.data[0]) + (2 if row["cluster"] else 0)
    return base.model_copy(update={"commands": commands})


def weight_of(scenario: MemoryScenario) -> tuple[Generation, Weight]:
    """Rules of the engine, and what its data weigh."""
    node = node_of(scenario)
    return node.generation, weigh(node, scenario.data, beside=beside_of(scenario, node))


def data_bytes(engine: Row, row: Row) -> float:
    """What the data took: the rest of what the server holds is as before, by one more command each.

    Before, one connection had just asked for INFO.
    """
    scenario = scenario_of(engine, row)
    g, weight = weight_of(scenario)
    tracked = COMMAND_BYTES if g.packed == "listpack" else 0.0
    asked = (scenario.commands - 1) * tracked - _reply_buffer(g)
    if row["cluster"]:
        # The server was asked before it had its slots.
        asked -= tracked
    del weight
    return float(row["measured_bytes"] - row["before_bytes"] - asked)


def _reply_buffer(g: Generation) -> float:
    return max(0.0, g.server.reply_buffer - 1024.0)


def residual(engine: Row, row: Row, *, predicted_bytes: float | None = None) -> float:
    """Logarithm of what the data took over what the model says they take.

    Parameters
    ----------
    predicted_bytes
        What another model says.
    """
    _, weight = weight_of(scenario_of(engine, row))
    model = weight.used_bytes - weight.beside.total if predicted_bytes is None else predicted_bytes
    return math.log(max(data_bytes(engine, row), 1.0) / model)


Key = tuple[str, str, AllocatorFamily, str]
"""Engine, version, allocators, type."""


def key_of(engine: Row, row: Row) -> Key:
    """Which error a row tells."""
    g = generation(engine["name"], engine["version"])
    family = allocator_family(engine["allocator"])
    return g.engine, g.versions[0], family, row["data"]["type"]


def each_row(engines: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Row, Row]]:
    """Engines with each of their rows."""
    for each in engines:
        for row in each["rows"]:
            yield each["engine"], row


def errors_of(
    engines: Sequence[Mapping[str, Any]],
    *,
    without: Row | None = None,
    without_version: tuple[str, str] | None = None,
) -> FootprintErrors:
    """The errors that measured rows tell.

    Parameters
    ----------
    without
        A row that is left out.
    without_version
        An engine and its version that are taken not to have been measured.
    """
    found: dict[Key, list[float]] = {}
    first: dict[str, dict[tuple[str, str], list[float]]] = {type_: {} for type_ in TYPES}
    for engine, row in each_row(engines):
        key = key_of(engine, row)
        if row is without or key[:2] == without_version:
            continue
        found.setdefault(key, []).append(row["residual"])
        if row.get("first_residual") is not None:
            first[key[3]].setdefault(key[:2], []).append(row["first_residual"])
    versions: dict[tuple[str, str, AllocatorFamily], dict[str, RelativeError]] = {}
    for (*version, type_), residuals in found.items():
        sum_of_squares = USUAL**2 + sum(each**2 for each in residuals)
        points = len(residuals) + 1
        versions.setdefault(tuple(version), {})[type_] = _error(sum_of_squares / points, points)  # type: ignore[arg-type]
    return FootprintErrors(
        versions=[
            VersionErrors(engine=engine, version=version, allocator=family, types=types)
            for (engine, version, family), types in versions.items()
            if set(types) == set(TYPES)
        ],
        others={
            type_: _error(_mean(map(_mean_square, by_version.values())), len(by_version))
            for type_, by_version in first.items()
        },
    )


def _error(mean_square: float, points: int) -> RelativeError:
    return RelativeError(error=float(f"{math.sqrt(mean_square):.4g}"), points=points)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _mean_square(values: Iterable[float]) -> float:
    return _mean(each**2 for each in values)


def with_intervals(engines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every row with the interval that the other rows give, and as if its version were unknown."""
    result = []
    for each in engines:
        rows = []
        version = key_of(each["engine"], each["rows"][0])[:2]
        unknown = errors_of(engines, without_version=version)
        for row in each["rows"]:
            scenario = scenario_of(each["engine"], row)
            g, weight = weight_of(scenario)
            others = errors_of(engines, without=row)
            own = used_interval(scenario, g, weight, errors=others)
            blind = used_interval(scenario, g, weight, errors=unknown)
            low, high = resident_ends(scenario, own, weight)
            half = others.half_width(
                g, scenario.allocator or g.allocator, row["data"]["type"], known=True
            )
            rows.append(
                {
                    **row,
                    "low_bytes": round(own.low),
                    "high_bytes": round(own.high),
                    "inside": own.contains(row["measured_bytes"]),
                    "data_inside": abs(row["residual"]) <= half,
                    "resident_inside": low.resident <= row["resident_bytes"] <= high.resident,
                    "inside_if_unknown": blind.contains(row["measured_bytes"]),
                }
            )
        result.append({**each, "rows": rows})
    return result


def errors_yaml(errors: FootprintErrors) -> str:
    """The file that the model reads."""
    head = "# Relative standard errors of data in memory, from docs/accuracy/footprint.json;\n"
    head += "# `make evidence STUDY=footprint-errors` writes them.\n"
    return head + dump_yaml(errors.model_dump(mode="json"))
