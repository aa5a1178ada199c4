"""Rates of a price table beside those of nodes: backups, traffic between zones, old versions."""

from __future__ import annotations

from datetime import date

from pydantic import Field, field_validator

from forecache.hwprofiles.quantity import Quantity
from forecache.hwprofiles.record import Record as _Group

SUPPORT_YEARS = 3
"""For which an old version can be kept for a surcharge; then the service upgrades it."""


class BackupRates(_Group):
    """Backups of a cache's data; so many of each cache cost nothing."""

    usd_per_gb_month: Quantity
    free_of_each_cache: Quantity


class ZoneRates(_Group):
    """Bytes between zones, of each direction of a machine that the customer rents.

    A node of the service is none: of its traffic with a client in another zone the client's side
    alone is charged.
    """

    usd_per_gb: Quantity


class SupportRates(_Group):
    """What a node costs more whose version of Redis is beyond its standard support.

    Attributes
    ----------
    standard_support_until
        The last day, as YYYY-MM-DD, by major version.
    share_in_years_1_and_2, share_in_year_3
        Of the price on demand, in the years after that day.
    """

    versions_source: str
    standard_support_until: dict[str, str]
    share_in_years_1_and_2: Quantity
    share_in_year_3: Quantity

    @field_validator("standard_support_until")
    @classmethod
    def _days(cls, value: dict[str, str]) -> dict[str, str]:
        for day in value.values():
            day_of(day)
        return value

    def ends(self, version: str) -> date | None:
        """The last day of a version's standard support; None where none is known."""
        day = self.standard_support_until.get(version.split(".")[0])
        return None if day is None else date.fromisoformat(day)

    def share(self, version: str, on: date) -> float:
        """What is added to the price of a node that day, as a share of that on demand."""
        ends = self.ends(version)
        if ends is None or on <= ends:
            return 0.0
        third = ends.year + SUPPORT_YEARS - 1, ends.month, ends.day
        if (on.year, on.month, on.day) > third:
            return self.share_in_year_3.best
        return self.share_in_years_1_and_2.best


class SavingsPlanRates(_Group):
    """A commitment to spend for a year, with nothing upfront.

    Attributes
    ----------
    engines, from_generation
        Of the nodes that it covers: cache.r7g is of generation 7.
    discount
        Share of the price on demand.
    """

    engines: list[str]
    from_generation: int = Field(ge=1, le=99)
    discount: Quantity


def day_of(text: str) -> date:
    """A day as YYYY-MM-DD.

    Raises
    ------
    ValueError
        It is none.
    """
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.isoformat() != text or not 2000 <= found.year <= 2100:
        raise ValueError("a day as YYYY-MM-DD, from 2000 to 2100")
    return found
