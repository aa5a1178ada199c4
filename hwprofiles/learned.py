"""What a joint fit to datasets says of a host of the catalogue, in a file beside its profile.

`profile.yaml` says what is known of a host by itself. `learned.yaml`, which `make evidence
STUDY=learned-hosts` writes, has the numbers of it that measured loads moved, and what they say of
the work of engines there. The catalogue's host is both together (`with_learned`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from .files import FieldError
from .quantity import Quantity, Source
from .record import Record

if TYPE_CHECKING:
    from .schema import HostProfile

SOURCE = "datasets"
"""Id of the source of learned numbers."""


class LearnedWork(Record):
    """A number of engines' work, in standard errors of what its profile says of it.

    Attributes
    ----------
    mean, error
        Where it most probably lies, and its standard error.
    """

    mean: float
    error: float = Field(ge=0)


class LearnedTogether(Record):
    """What is known together of a host's numbers and of engines' work on it.

    Attributes
    ----------
    discrepancy
        Relative standard error of the model on hosts that were fitted so, from loads left out:
        loads of GET and SET alone.
    commands_discrepancy
        The same of loads with other commands.
    work
        By threading policy and name, `asynchronous.execute_lines`.
    correlation
        Of standard errors of numbers, which are called by their `HostSpeed` field or as under
        `work`; pairs that are left out are not correlated, nor does a pair stand twice.
    """

    discrepancy: float = Field(ge=0)
    commands_discrepancy: float = Field(ge=0)
    work: dict[str, LearnedWork]
    correlation: dict[str, dict[str, float]]

    def of_policy(self, policy: str) -> dict[str, LearnedWork]:
        """By name of work, what engines of a threading policy do."""
        begin = f"{policy}."
        return {k.removeprefix(begin): v for k, v in self.work.items() if k.startswith(begin)}

    def correlated(self, first: str, second: str) -> float:
        """Correlation of two numbers."""
        if first == second:
            return 1.0
        own = self.correlation.get(first, {}).get(second)
        return self.correlation.get(second, {}).get(first, 0.0) if own is None else own

    @model_validator(mode="after")
    def _check(self) -> LearnedTogether:
        for first, row in self.correlation.items():
            for second, value in row.items():
                if not -1.0 <= value <= 1.0:
                    raise FieldError(
                        f"correlation.{first}.{second}", found=value, valid="from -1 to 1"
                    )
        return self


class Learned(Record):
    """The file."""

    source: Source
    leaves: dict[str, Quantity]
    """By path in the profile, such as `kernel.tcp_send_ns`."""
    posterior: LearnedTogether


def learned_points(host: HostProfile) -> Mapping[str, Sequence[int]]:
    """Points by dataset that a host was fitted to; none for one that was not."""
    source = host.sources.get(SOURCE)
    return {} if source is None or source.points is None else source.points


def with_learned(data: Mapping[str, Any], learned: Learned) -> dict[str, Any]:
    """The contents of a profile with the numbers that were learned in their places."""
    merged: dict[str, Any] = _copied(data)
    merged["sources"] = {**merged["sources"], SOURCE: learned.source.model_dump(exclude_none=True)}
    merged["posterior"] = learned.posterior.model_dump()
    for path, leaf in learned.leaves.items():
        *groups, name = path.split(".")
        place: Any = merged
        for group in groups:
            found = place[group] if isinstance(place, dict) else _named(place, group)
            place = found
        place[name] = leaf.model_dump()
    return merged


def _named(caches: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(each for each in caches if each["name"] == name)


def _copied(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _copied(value) for key, value in data.items()}
    return [_copied(value) for value in data] if isinstance(data, list) else data
