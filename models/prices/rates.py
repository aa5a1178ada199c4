"""Rates of a price table beside those of nodes: backups, traffic between zones, old versions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from forecache.hwprofiles.files import parse, read_yaml
from forecache.hwprofiles.instances import Provider
from forecache.hwprofiles.quantity import Quantity, Source
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


class ProviderZoneRates(_Group):
    """Bytes between the zones of a provider; `charged` says on which side, for people."""

    usd_per_gb: Quantity
    charged: str


class ZoneTraffic(_Group):
    """`zones.yaml`."""

    sources: dict[str, Source]
    providers: dict[Provider, ProviderZoneRates]

    @model_validator(mode="after")
    def _sources_known(self) -> ZoneTraffic:
        named = {str(rates.usd_per_gb.source) for rates in self.providers.values()}
        if unknown := sorted(named - self.sources.keys()):
            raise ValueError(f"sources listed in this file, not {', '.join(unknown)}")
        return self


@dataclass(frozen=True)
class ZonePrice:
    """What a byte costs that crosses zones, on all sides that are charged.

    Attributes
    ----------
    charged
        On which sides, for people.
    source
        Whose price it is, with its day.
    """

    usd_per_gb: float
    charged: str
    source: str


def provider_zone_price(provider: str) -> ZonePrice | None:
    """What a provider charges instances for bytes between zones; None where it is not known."""
    table = _zone_traffic()
    rates = {str(name): found for name, found in table.providers.items()}.get(provider)
    if rates is None:
        return None
    source = table.sources[rates.usd_per_gb.source or ""]
    return ZonePrice(rates.usd_per_gb.best, rates.charged, f"{source.title} ({source.accessed})")


@lru_cache(maxsize=1)
def _zone_traffic() -> ZoneTraffic:
    file = Path(__file__).parent / "zones.yaml"
    return parse(ZoneTraffic, read_yaml(file), file=str(file))


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
