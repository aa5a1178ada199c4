"""Sweeps: from a file in which fields hold `{sweep: [...]}` to one case per point.

Any number or word may be replaced by a sweep; several sweeps make their product. What a case looks
like is the schema's business, so that every kind of scenario is expanded by this one function.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from forecache.hwprofiles.files import parse
from forecache.sim.errors import InputError

MOST_POINTS = 10_000
"""Points of a sweep."""

ScenarioT = TypeVar("ScenarioT", bound=BaseModel)


@dataclass(frozen=True)
class Case(Generic[ScenarioT]):
    """A scenario at one point of its sweep; `given` holds only what the sweep varies."""

    given: dict[str, Any]
    scenario: ScenarioT


Path = tuple[Any, ...]
"""Keys and places on the way to a field; a key of a damaged file need not be a string."""


def _sweeps(data: Any, path: Path = ()) -> Iterator[tuple[Path, list[Any]]]:
    if isinstance(data, list):
        for place, value in enumerate(data):
            yield from _sweeps(value, (*path, place))
    if not isinstance(data, Mapping):
        return
    if set(data) == {"sweep"}:
        yield path, data["sweep"]
        return
    for key, value in data.items():
        yield from _sweeps(value, (*path, key))


def _replaced(data: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    if isinstance(data, list):
        place = path[0]
        return [*data[:place], _replaced(data[place], path[1:], value), *data[place + 1 :]]
    return {**data, path[0]: _replaced(data[path[0]], path[1:], value)}


def expand(data: Mapping[str, Any], *, file: str, schema: type[ScenarioT]) -> list[Case[ScenarioT]]:
    """The cases of a scenario, in the order of its sweeps.

    Parameters
    ----------
    data
        The content of a scenario file.
    file
        What to call it in error messages.
    schema
        What every case is checked against. A swept field goes by its path, `events.0.at_s` for one
        in a list; `workload.` is left out of it.

    Raises
    ------
    InputError
        A field is unknown, missing or out of range, or a sweep is empty or repeats a value.
    """
    sweeps = list(_sweeps(data))
    if sweeps and not sweeps[0][0]:
        raise InputError(f"{file}: found a sweep at the top level; valid is a sweep of a field.")
    for path, values in sweeps:
        where = ".".join(map(str, path))
        if not isinstance(values, list) or not values:
            raise InputError(
                f"{file}: field {where}.sweep: found {values!r}; valid is a list of at least one "
                "value."
            )
        if any(values.index(value) != index for index, value in enumerate(values)):
            raise InputError(f"{file}: field {where}.sweep: found a value twice in {values!r}.")
    points = math.prod(len(values) for _, values in sweeps)
    if points > MOST_POINTS:
        raise InputError(f"{file}: found sweeps of {points} points; valid are {MOST_POINTS}.")
    names = [".".join(map(str, path)) for path, _ in sweeps]
    cases = []
    for combination in itertools.product(*(values for _, values in sweeps)):
        concrete: Any = dict(data)
        for (path, _), value in zip(sweeps, combination, strict=True):
            concrete = _replaced(concrete, path, value)
        scenario = parse(schema, concrete, file=file)
        given = {
            name.removeprefix("workload."): value
            for name, value in zip(names, combination, strict=True)
        }
        cases.append(Case(given=given, scenario=scenario))
    return cases
