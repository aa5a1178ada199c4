"""The cases: what was measured, and the scenarios that ask for it. Misspelt keys are errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import parse, read_yaml
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError

from .quantities import QUANTITIES

FILE = Path(__file__).with_name("cases.yaml")
SCENARIOS = Path(__file__).with_name("scenarios")

Machine = Literal["known", "like", "unknown", "any"]
Verb = Literal["simulate", "memory"]
Given = str | int | float


class Range(Record):
    """A measurement that was published as a range."""

    low: float
    high: float

    @model_validator(mode="after")
    def _in_order(self) -> Range:
        if self.low > self.high:
            raise ValueError(f"low <= high, not {self.low} > {self.high}")
        return self


Value = float | str | Range


class Measured(Record):
    """What one source measured of one scenario, or of several in turn."""

    scenario: str | list[str] | None = None
    no_scenario: str | None = None
    """Why there is none, in words."""
    verb: Verb | None = None
    at: dict[str, list[Given]] = Field(default={}, max_length=1)
    given: dict[str, Given] = Field(default={})
    unknown: list[str] = Field(default=[])
    values: dict[str, Value | list[Value]] = Field(min_length=1)
    which: str | None = None
    note: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Measured:
        if (self.scenario is None) == (self.no_scenario is None):
            raise ValueError("scenario or no_scenario")
        if self.at and not isinstance(self.scenario, str):
            raise ValueError("one scenario with at")
        _check_quantities(self.values)
        wanted = len(self.scenario) if isinstance(self.scenario, list) else None
        for values in self.at.values():
            wanted = len(values)
        for name, found in self.values.items():
            count = len(found) if isinstance(found, list) else None
            if self.scenario is not None and count != wanted:
                raise ValueError(f"{wanted or 'one value'} of {name}, not {count or 'one value'}")
        return self


class Ratio(Record):
    """What `of` has over `to`."""

    of: str
    to: str
    given: dict[str, Given] = Field(default={})
    """Values of fields that both sweep."""
    values: dict[str, float] = Field(min_length=1)

    @model_validator(mode="after")
    def _known(self) -> Ratio:
        _check_quantities(self.values)
        return self


class Case(Record):
    """A public report."""

    case: str = Field(pattern=r"^F\d+$")
    about: str
    source: str
    machine: Machine
    machine_note: str | None = None
    verb: Verb
    measured: list[Measured] = Field(min_length=1)
    ratios: list[Ratio] = Field(default=[])
    reason: str | None = None
    """Why something misses, as far as that is apparent."""

    @property
    def scenarios(self) -> list[str]:
        """Every file that the case names, once."""
        found: dict[str, None] = {}
        for each in self.measured:
            named = [each.scenario] if isinstance(each.scenario, str) else each.scenario or []
            found.update(dict.fromkeys(named))
        for ratio in self.ratios:
            found.update(dict.fromkeys((ratio.of, ratio.to)))
        return list(found)


class Cases(Record):
    """The whole file."""

    cases: list[Case]

    @model_validator(mode="after")
    def _once(self) -> Cases:
        names = [case.case for case in self.cases]
        if len(set(names)) != len(names):
            raise ValueError("each case once")
        return self


def _check_quantities(values: Mapping[str, Any]) -> None:
    if unknown := values.keys() - QUANTITIES.keys():
        known = ", ".join(sorted(QUANTITIES))
        raise ValueError(f"quantities of {known}, not {', '.join(sorted(unknown))}")


@lru_cache(maxsize=1)
def load_cases() -> tuple[Case, ...]:
    """The committed cases."""
    return read_cases(FILE)


def read_cases(file: Path) -> tuple[Case, ...]:
    """Read a file of cases.

    Raises
    ------
    InputError
        It is not as it should be: a misspelt key, a quantity that nothing reads, lists of unequal
        lengths; or it names a scenario that is not there.
    """
    cases = tuple(parse(Cases, read_yaml(file), file=str(file)).cases)
    for case in cases:
        for name in case.scenarios:
            if not (SCENARIOS / name).is_file():
                raise InputError(f"{file}: case {case.case}: no file {name} in {SCENARIOS.name}/.")
    return cases


def at_point(data: Any, given: Mapping[str, Any], path: tuple[str, ...] = ()) -> Any:
    """A scenario's contents with the swept fields at the given values.

    Fields are named as in `given` of an answer's points: by the end of their path.

    Raises
    ------
    KeyError
        It sweeps a field that is not given.
    """
    if isinstance(data, Mapping):
        if set(data) == {"sweep"}:
            dotted = ".".join(path)
            for name, value in given.items():
                if f".{dotted}".endswith(f".{name}"):
                    return value
            raise KeyError(dotted)
        return {key: at_point(value, given, (*path, str(key))) for key, value in data.items()}
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [at_point(value, given, (*path, str(i))) for i, value in enumerate(data)]
    return data
