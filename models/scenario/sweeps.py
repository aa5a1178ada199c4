"""Sweeps: from a file in which fields hold `{sweep: [...]}` to one case per point.

Any number or word may be replaced by a sweep; several sweeps make their product, but for
`{sweep: [...], with: other}`, which changes together with another. What a case looks like is the
schema's business, so that every kind of scenario is expanded by this one function.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from pydantic import BaseModel

from forecache.hwprofiles.files import did_you_mean, format_path, is_sweep, parse
from forecache.sim.errors import InputError

MOST_POINTS = 10_000
"""Points of a sweep whose answers are held in memory together."""

ScenarioT = TypeVar("ScenarioT", bound=BaseModel)


@dataclass(frozen=True)
class Case(Generic[ScenarioT]):
    """A scenario at one point of its sweep; `given` holds only what the sweep varies."""

    given: dict[str, Any]
    scenario: ScenarioT


Path = tuple[Any, ...]
"""Keys and places on the way to a field; a key of a damaged file need not be a string."""


def _sweeps(data: Any, path: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    if isinstance(data, list):
        for place, value in enumerate(data):
            yield from _sweeps(value, (*path, place))
    if not isinstance(data, Mapping):
        return
    if is_sweep(data):
        yield path, data
        return
    for key, value in data.items():
        yield from _sweeps(value, (*path, key))


def first_sweep(data: Any) -> str | None:
    """Where data have their first sweep, if any."""
    return next((_joined(path) for path, _ in _sweeps(data)), None)


def _replaced(data: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    if isinstance(data, list):
        place = path[0]
        return [*data[:place], _replaced(data[place], path[1:], value), *data[place + 1 :]]
    return {**data, path[0]: _replaced(data[path[0]], path[1:], value)}


@dataclass(frozen=True)
class Template:
    """A scenario with places for the values of its sweeps.

    Attributes
    ----------
    data
        The content of the file, with nothing in these places.
    paths
        Where they are.
    """

    data: dict[str, Any]
    paths: tuple[Path, ...]

    @cached_property
    def names(self) -> list[str]:
        """What the swept fields are called: by their paths, `workload.` left out."""
        return [_joined(path).removeprefix("workload.") for path in self.paths]

    def given(self, values: Sequence[Any]) -> dict[str, Any]:
        """The swept fields by name."""
        return dict(zip(self.names, values, strict=True))

    def filled(self, values: Sequence[Any]) -> dict[str, Any]:
        """The content of the file at one point."""
        concrete: Any = self.data
        for path, value in zip(self.paths, values, strict=True):
            concrete = _replaced(concrete, path, value)
        return dict(concrete)


class Sweep:
    """Every combination of the sweeps of a scenario; none is made before it is asked for.

    The last sweep of the file varies fastest. One `with` another has its values in step with that.

    Parameters
    ----------
    data
        The content of a scenario file. A sweep may also be a tuple, a `range` or an array of one
        axis.
    file
        What to call it in error messages.

    Raises
    ------
    InputError
        A sweep is at the top level, is empty, repeats a value, or is with none or one of another
        length.
    """

    def __init__(self, data: Mapping[str, Any], *, file: str) -> None:
        self.file = file
        found = list(_sweeps(data))
        if found and not found[0][0]:
            raise InputError(
                f"{file}: found a sweep at the top level; valid is a sweep of a field."
            )
        without: Any = dict(data)
        for path, _ in found:
            without = _replaced(without, path, None)
        self.template = Template(without, tuple(path for path, _ in found))
        self.values = [
            _values(
                given["sweep"],
                field=f"{file}: field '{format_path((*path, 'sweep'))}'",
                unique="with" not in given,
            )
            for path, given in found
        ]
        """Of each swept field."""
        self.leads = [self._lead(number, found) for number in range(len(found))]
        """Of each swept field the place of the one that it is in step with, or its own."""

    def _lead(self, number: int, found: Sequence[tuple[Path, Mapping[str, Any]]]) -> int:
        if "with" not in found[number][1]:
            return number
        names = self.template.names
        other = str(found[number][1]["with"]).removeprefix("workload.")
        path = self.template.paths[number]
        field, its_sweep = (
            f"{self.file}: field '{format_path((*path, name))}'" for name in ("with", "sweep")
        )
        others = [name for place, name in enumerate(names) if place != number]
        if other not in others:
            raise InputError(f"{field}: found {other!r}; {did_you_mean(other, others)}")
        lead, count = names.index(other), len(self.values[number])
        if "with" in found[lead][1]:
            raise InputError(
                f"{field}: found {other!r}, which is itself with {found[lead][1]['with']!r}; valid "
                "is a sweep that is with none."
            )
        if len(self.values[lead]) != count:
            raise InputError(
                f"{its_sweep}: found {count} values; valid are {len(self.values[lead])}, as of "
                f"{other!r}."
            )
        return lead

    @property
    def written(self) -> list[dict[str, Any]]:
        """Each sweep as a file has it."""
        names = self.template.names
        return [
            {"sweep": list(values)} | ({} if lead == number else {"with": names[lead]})
            for number, (values, lead) in enumerate(zip(self.values, self.leads, strict=True))
        ]

    @property
    def points(self) -> int:
        """How many combinations there are."""
        return math.prod(len(values) for n, values in enumerate(self.values) if self.leads[n] == n)

    def check_points(self, most: int, *, more: str = "") -> None:
        """Refuse a sweep of more points than so many, with an `InputError`."""
        points = self.points
        if points > most:
            # Python refuses to write numbers of thousands of digits.
            found = str(points) if points < 10**15 else "more than 10**15"
            raise InputError(
                f"{self.file}: found sweeps of {found} points; valid are {most}{more}."
            )

    def combination(self, point: int) -> tuple[Any, ...]:
        """The values of the swept fields at a point, which counts from 0."""
        places = [0] * len(self.values)
        for number in reversed(range(len(self.values))):
            if self.leads[number] == number:
                point, places[number] = divmod(point, len(self.values[number]))
        leads = zip(self.values, self.leads, strict=True)
        return tuple(values[places[lead]] for values, lead in leads)


def _joined(path: Path) -> str:
    return ".".join(map(str, path))


def _values(given: Any, *, field: str, unique: bool) -> Sequence[Any]:
    """The values of a sweep as plain data; a range stays one, however long."""
    if isinstance(given, np.ndarray) and given.ndim == 1:
        given = given.tolist()
    if not isinstance(given, list | tuple | range) or not given:
        raise InputError(f"{field}: found {given!r}; valid is a list of values, such as [1, 2].")
    if isinstance(given, range):
        return given
    values = [value.item() if isinstance(value, np.generic) else value for value in given]
    seen = set()
    for value in values:
        known = _hashable(value)
        if unique and known in seen:
            raise InputError(f"{field}: found {value!r} twice; valid is each value once.")
        seen.add(known)
    return values


def _hashable(value: Any) -> Hashable:
    """Something that equals another value's exactly where the two values are equal."""
    if isinstance(value, Mapping):
        return frozenset((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    return value if isinstance(value, Hashable) else repr(value)


def expand(data: Mapping[str, Any], *, file: str, schema: type[ScenarioT]) -> list[Case[ScenarioT]]:
    """The cases of a scenario, in the order of its sweeps.

    Parameters
    ----------
    data
        The content of a scenario file, as `Sweep` takes it.
    file
        What to call it in error messages.
    schema
        What every case is checked against. A swept field goes by its path, `events.0.at_s` for one
        in a list; `workload.` is left out of it.

    Raises
    ------
    InputError
        A field is unknown, missing or out of range, a sweep is empty or repeats a value, or there
        are too many points.
    """
    sweep = Sweep(data, file=file)
    sweep.check_points(MOST_POINTS, more="; `forecache sweep` takes more and writes them to files")
    template = sweep.template
    combinations = [sweep.combination(point) for point in range(sweep.points)]
    return [
        Case(template.given(values), parse(schema, template.filled(values), file=file))
        for values in combinations
    ]
