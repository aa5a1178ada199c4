"""What the server of a prediction costs an hour, where somebody says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forecache.hwprofiles.schema import HostProfile

from .cost.prices import CacheEngine, PriceTable, load_prices

if TYPE_CHECKING:
    from .predict import System

NODE_PRICES = "elasticache-us-east-1"
"""Price table of managed nodes."""


@dataclass(frozen=True)
class ServerPrice:
    """A price, and whose it is."""

    usd_per_hour: float
    note: str


def managed_node(host: HostProfile, engine: str) -> tuple[PriceTable, str] | None:
    """The node that a service sells with a managed engine on an instance, with its price table.

    None for an engine that one runs oneself, and for a type that the table doesn't have.
    """
    if not engine.startswith("elasticache-"):
        return None
    table, node_type = load_prices(NODE_PRICES), f"cache.{host.instance}"
    return (table, node_type) if node_type in table.nodes.types else None


def server_price(system: System) -> ServerPrice | None:
    """The price of the server: of its instance, or of the managed node that runs on it.

    None for a host that is no instance and names no price, and for a type of node that the price
    table doesn't have. The instance behind a managed node has a price too, which nobody pays there.
    """
    host, engine = system.host, system.engine.engine
    managed = managed_node(host, engine)
    if managed is not None:
        table, node_type = managed
        served: CacheEngine = "valkey" if engine.endswith("valkey") else "redis"
        usd_per_hour = table.node_usd_per_hour(node_type, served)
        return ServerPrice(usd_per_hour, f"{node_type} on demand, {table.region}, {table.date}")
    if engine.startswith("elasticache-"):
        return None
    usd_per_hour = host.speed().price_usd_per_hour
    if not math.isfinite(usd_per_hour):
        return None
    method = host.price_usd_per_hour.method if host.price_usd_per_hour else None
    return ServerPrice(usd_per_hour, (method or "the host's price").replace("read ", ""))
