"""What a node of an offer costs a month, in each way in which it may be paid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from forecache.hwprofiles import list_instances
from forecache.sim.errors import InputError

from ...advice.server_price import server_price
from ...prediction.system import System
from ...prices.rates import ZonePrice, provider_zone_price
from ...prices.table import HOURS_A_MONTH, PriceTable, load_prices, served_engine
from ...prices.terms import PAYMENTS, Payment, node_usd_per_month
from ..results import TermPrice
from ..schema import Choices

MANAGED = "cache."
"""What names of node types of a service begin with."""


@dataclass(frozen=True)
class NodeUsd:
    """What one node costs a month, how it is paid, and whose price that is."""

    payment: str
    usd_per_month: float
    note: str


def price_table(choices: Choices) -> PriceTable:
    """The price table of managed nodes.

    Raises
    ------
    InputError
        There is none of that name.
    """
    try:
        written_ns = Path(choices.prices).stat().st_mtime_ns
    except OSError:
        written_ns = 0
    try:
        return _read(choices.prices, written_ns)
    except InputError as error:
        raise InputError(str(error).replace("field prices", "field choices.prices")) from None


@lru_cache(maxsize=8)
def _read(name: str, _written_ns: int) -> PriceTable:
    """A file is read once as long as it stays what it is: every offer asks for it."""
    return load_prices(name)


def cheapest(choices: Choices, name: str, system: System) -> NodeUsd | None:
    """The cheapest way to pay for a node of those that are allowed; None without a price."""
    if name in choices.usd_per_month:
        return NodeUsd("as given", choices.usd_per_month[name], "the scenario's own price")
    found = [_paid(choices, name, system, payment) for payment in choices.payments]
    return min((each for each in found if each), key=lambda each: each.usd_per_month, default=None)


def term_prices(choices: Choices, name: str, system: System) -> list[TermPrice]:
    """Every way to pay for a node, with None where no price is known."""
    found = []
    for payment in PAYMENTS:
        paid = _paid(choices, name, system, payment)
        usd, note = (None, "no price of it is known") if paid is None else _told(paid)
        found.append(TermPrice(payment.replace("_", " "), usd, note))
    return found


def zone_price(choices: Choices, name: str) -> ZonePrice | None:
    """What a byte between the zones of a node's region costs; None where it is not known."""
    table = price_table(choices)
    if name.startswith(MANAGED):
        return table.zone_price(managed=True)
    instance = next((each for each in list_instances() if each.name == name), None)
    if instance is None or instance.provider is None:
        return None
    if instance.provider == "aws":
        return table.zone_price(managed=False) if instance.region == table.region else None
    return provider_zone_price(instance.provider)


def _told(paid: NodeUsd) -> tuple[float, str]:
    return paid.usd_per_month, paid.note


def _paid(choices: Choices, name: str, system: System, payment: Payment) -> NodeUsd | None:
    """A node paid in one way; None where no such price is known."""
    table = price_table(choices)
    words, managed = payment.replace("_", " "), name.startswith(MANAGED)
    if managed and payment == "spot":
        return None  # a service sells none
    discount = choices.discounts.get(payment)
    usd: float | None = None
    note, region = "", _region(name)
    if managed:
        asked: Payment = "on_demand" if discount is not None else payment
        usd = node_usd_per_month(table, name, served_engine(system.engine.engine), asked)
        region = table.region
        note = f"{name} {asked.replace('_', ' ')}, {region}, {table.date}"
    elif payment == "on_demand" or discount is not None:
        price = server_price(system)
        if price is not None:
            usd, note = HOURS_A_MONTH * price.usd_per_hour, price.note
    if usd is None:
        return None
    if discount is not None:
        usd *= 1.0 - discount
        note += f", less the scenario's {discount:.3g} of it"
    if choices.region is not None and choices.region != region:
        if choices.region_factor is None:
            return None
        usd *= choices.region_factor
        note += f", × {choices.region_factor:.4g} for {choices.region}"
    return NodeUsd(words, usd, note)


def _region(name: str) -> str | None:
    """Of which region the catalogue has the price of an instance."""
    return next((each.region for each in list_instances() if each.name == name), None)
