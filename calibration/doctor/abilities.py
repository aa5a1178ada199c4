"""One thing that a machine allows or doesn't, and all of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from forecache.models.results.displayed import Displayed
from forecache.sim.plain import Result

Status = Literal["yes", "limited", "no", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Ability(Result):
    """One thing that a machine allows or doesn't.

    Attributes
    ----------
    id
        Its name, which stays the same between versions.
    title
        What to call it.
    status
        `yes`: all that forecache can use; `limited`: less than that; `no`; `unknown`: the machine
        doesn't say.
    found
        What is here, in a phrase.
    helps
        The verb or study that it makes possible or more accurate.
    get
        How to get what is missing; empty where nothing is.
    values
        What was found, as numbers and words whose names carry their units.
    """

    id: str
    title: str
    status: Status
    found: str
    helps: str
    get: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Displayed):
    """What this machine allows, and how long it took to find out."""

    version: str
    abilities: tuple[Ability, ...]
    took_s: float

    def ability(self, name: str) -> Ability:
        """The ability of this id, or `KeyError`."""
        for each in self.abilities:
            if each.id == name:
                return each
        raise KeyError(name)
