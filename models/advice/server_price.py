"""What the server of a prediction costs an hour, where a price is known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..prices.table import CacheEngine, HourlyPrice, managed_node

if TYPE_CHECKING:
    from ..prediction.system import System


def server_price(system: System) -> HourlyPrice | None:
    """The price of the server: of its instance, or of the managed node that runs on it.

    None for a host that is no instance and names no price, and for a type of node that the price
    table doesn't have. The instance behind a managed node has a price too; users don't pay it.
    """
    host, engine = system.host, system.engine.engine
    managed = managed_node(host, engine)
    if managed is not None:
        table, node_type = managed
        served: CacheEngine = "valkey" if engine.endswith("valkey") else "redis"
        usd_per_hour = table.node_usd_per_hour(node_type, served)
        return HourlyPrice(usd_per_hour, f"{node_type} on demand, {table.region}, {table.date}")
    if engine.startswith("elasticache-"):
        return None
    usd_per_hour = host.speed().price_usd_per_hour
    if not math.isfinite(usd_per_hour):
        return None
    method = host.price_usd_per_hour.method if host.price_usd_per_hour else None
    return HourlyPrice(usd_per_hour, (method or "the host's price").replace("read ", ""))
