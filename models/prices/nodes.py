"""Managed nodes of three services: what keys may take of their memory, and their network."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from forecache.hwprofiles.instances import list_instances, read_rows
from forecache.hwprofiles.quantity import Source
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError

from .table import NODE_PRICES, load_prices

Service = Literal["elasticache", "memorydb", "memorystore"]

RESERVED_SHARE: dict[Service, float | None] = {
    "elasticache": 0.25,
    "memorydb": None,
    "memorystore": 0.2,
}
"""Of maxmemory what a service keeps by default; None where it was not found. Memorystore: 10.4 of
13 GB are writable."""

SOURCES = {
    "ec-params": Source(
        title="Node-type specific parameters of ElastiCache (maxmemory)",
        url="https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/ParameterGroups.Engine.html",
        accessed="2026-11-20",
    ),
    "memorydb-nodes": Source(
        title="Supported node types of MemoryDB",
        url="https://docs.aws.amazon.com/memorydb/latest/devguide/nodes.supportedtypes.html",
        accessed="2026-11-25",
        note="bandwidths only; no price and no maxmemory was found",
    ),
    "memorystore-nodes": Source(
        title="Instance and node specification of Memorystore for Valkey and Redis Cluster",
        url="https://cloud.google.com/memorystore/docs/valkey/instance-node-specification",
        accessed="2026-11-25",
        note="no price was found, and no vCPUs of standard-large and highmem-2xlarge",
    ),
}

_FILE = Path(__file__).parent / "nodes.csv"


class NodeRow(Record):
    """A row of `nodes.csv`; see its head for what the columns mean."""

    service: Service
    name: str
    vcpus: float | None = Field(default=None, gt=0)
    maxmemory_bytes: int | None = Field(default=None, gt=0)
    baseline_gbit_per_s: float | None = Field(default=None, gt=0)
    burst_gbit_per_s: float | None = Field(default=None, gt=0)
    source: str


class ManagedNode(Record):
    """A node that a service sells; None for what is not known.

    Attributes
    ----------
    usable_bytes
        What keys and values may take by default.
    usd_per_hour
        On demand, with Redis.
    """

    service: Service
    name: str
    vcpus: float | None
    usable_bytes: int | None
    baseline_gbit_per_s: float | None
    burst_gbit_per_s: float | None
    usd_per_hour: float | None = None
    region: str | None = None
    price_date: str | None = None


@lru_cache(maxsize=1)
def list_nodes() -> tuple[ManagedNode, ...]:
    """Every managed node, those with a price first."""
    table = load_prices(NODE_PRICES)
    bursts = {row.name: row.burst_gbit_per_s for row in list_instances()}
    priced = [
        ManagedNode(
            service="elasticache",
            name=name,
            vcpus=row.vcpus,
            usable_bytes=_usable("elasticache", row.maxmemory_bytes),
            baseline_gbit_per_s=row.baseline_gbit_per_s,
            burst_gbit_per_s=bursts.get(name.removeprefix("cache.")),
            usd_per_hour=row.redis_usd_per_hour,
            region=table.region,
            price_date=table.date,
        )
        for name, row in table.nodes.types.items()
    ]
    rows = read_rows(_FILE, NodeRow)
    for row in rows:
        if row.source not in SOURCES or row.name in table.nodes.types:
            raise InputError(
                f"{_FILE}: row {row.name}: found the source {row.source!r}; valid are "
                f"{', '.join(SOURCES)}, and a node that no price table has."
            )
    others = [
        ManagedNode(
            service=row.service,
            name=row.name,
            vcpus=row.vcpus,
            usable_bytes=_usable(row.service, row.maxmemory_bytes),
            baseline_gbit_per_s=row.baseline_gbit_per_s,
            burst_gbit_per_s=row.burst_gbit_per_s,
        )
        for row in rows
    ]
    return (*priced, *others)


def _usable(service: Service, maxmemory_bytes: int | None) -> int | None:
    reserved = RESERVED_SHARE[service]
    if maxmemory_bytes is None or reserved is None:
        return None
    return round(maxmemory_bytes * (1.0 - reserved))
