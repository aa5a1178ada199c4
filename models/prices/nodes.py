"""The managed node that a service sells on an instance."""

from __future__ import annotations

from forecache.hwprofiles.schema import HostProfile

from .table import PriceTable, load_prices

NODE_PRICES = "elasticache-us-east-1"
"""Price table of managed nodes."""


def managed_node(host: HostProfile, engine: str) -> tuple[PriceTable, str] | None:
    """The node that a service sells with a managed engine on an instance, with its price table.

    None for an engine that one runs oneself, and for a type that the table doesn't have.
    """
    if not engine.startswith("elasticache-"):
        return None
    table, node_type = load_prices(NODE_PRICES), f"cache.{host.instance}"
    return (table, node_type) if node_type in table.nodes.types else None
