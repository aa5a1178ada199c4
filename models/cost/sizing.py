"""How many shards of a type of node hold the data and serve the peak hour.

Three needs, of which the largest counts. *Data*: the rule of all verbs (`footprint/limits.py`),
maxmemory less what is reserved. *Requests*: a stated bound per vCPU, since nothing is simulated
here. *Network*: the baseline, since an hour outlasts what an instance may burst. Reads and writes
go to primaries; replicas are for failures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forecache.sim.errors import InputError
from forecache.sim.plain import Result

from ..footprint.limits import managed_limit
from ..prices.table import PriceTable
from .schema import MOST_SHARDS, CostScenario

REQUESTS_PER_VCPU = 60_000.0
"""Requests a second and vCPU (assumed, 30,000 to 110,000): Google names 120,000 to 130,000 of a
Memorystore node of 2 vCPUs with values of 1 KiB, Amazon more than a million of a cache.r7g.4xlarge
and larger with engine 7.1."""

MOST_VCPUS = 16
"""Further ones bring nothing: Amazon's million is the same from the 4xlarge on."""

BUSY_SHARE = 0.8
"""Of what a node can do, what is asked of it in the peak hour at most: Amazon's guide wants CPUs
below 80% before a cluster is resized."""

OVERHEAD_BYTES = 100.0
"""Of a request and its reply beside the value, in each direction: key, protocol, headers of TCP, IP
and Ethernet (assumed, 80 to 200)."""


@dataclass(frozen=True)
class Need(Result):
    """One thing that shards are needed for.

    Attributes
    ----------
    what
        `data`, `requests` or `network`.
    asked, each
        Of all shards, and what one has of it.
    unit
        Of both.
    grows
        Whether it grows with the load.
    basis
        Where `each` is from.
    """

    what: str
    asked: float
    each: float
    unit: str
    grows: bool
    basis: str

    def shards(self, load: float = 1.0) -> int:
        """How many are needed at `load` times the scenario's requests."""
        asked = self.asked * (load if self.grows else 1.0)
        return max(1, math.ceil(asked / self.each * (1.0 - 1e-12)))

    def most_load(self, shards: int) -> float:
        """The multiple of the scenario's requests up to which a number of nodes is enough."""
        return shards * self.each / self.asked if self.grows and self.asked > 0 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """The same, and the shards that are needed."""
        return {**super().to_dict(), "shards": self.shards()}


@dataclass(frozen=True)
class Sizing:
    """What a scenario needs of its type of node.

    Attributes
    ----------
    needs
        Those that could be told.
    unknown
        What could not be told, a sentence each.
    """

    needs: Sequence[Need]
    unknown: Sequence[str]

    @property
    def shards(self) -> int:
        """How many shards hold the data and serve the peak hour."""
        return max((need.shards() for need in self.needs), default=1)

    @property
    def deciding(self) -> Need | None:
        """The need that takes most shards."""
        return max(self.needs, key=Need.shards, default=None)

    def most_load(self, shards: int) -> float:
        """The multiple of the scenario's requests up to which a number of shards is enough."""
        return min((need.most_load(shards) for need in self.needs), default=math.inf)


def hourly_parts(shares: Sequence[float]) -> list[float]:
    """Shares of any unit and size as parts of one day."""
    most = max(shares)
    parts = [share / most for share in shares]  # first, so that no sum leaves the range of floats
    return [part / sum(parts) for part in parts]


def sizing(scenario: CostScenario, prices: PriceTable) -> Sizing:
    """What a scenario's nodes have to hold and serve, and what one shard of theirs does."""
    nodes = scenario.nodes
    assert nodes is not None  # asked only then
    if nodes.type not in prices.nodes.types and nodes.usd_per_month is not None:
        unknown_type = f"{prices.id} does not know {nodes.type}"
        return Sizing((), (f"{unknown_type}: forecache can't say whether it is enough",))
    found = Sizing(*_needs(scenario, prices, nodes.type))
    if found.shards > MOST_SHARDS:
        need = found.deciding
        assert need is not None
        fitting = _smallest_that_fits(scenario, prices)
        raise InputError(
            f"field nodes.type: found {nodes.type!r}, of which {need.what} need "
            f"{found.shards:,} shards; valid is {fitting}."
        )
    return found


def _needs(
    scenario: CostScenario, prices: PriceTable, node_type: str
) -> tuple[list[Need], list[str]]:
    row = prices.node(node_type)
    needs, unknown = [], []
    limit = managed_limit(prices, node_type, field="nodes.type")
    if limit is None:
        unknown.append(
            f"the memory of {node_type} is not known: forecache can't say whether the data fit"
        )
    else:
        basis = f"maxmemory less {prices.nodes.reserved_share.best:.0%} reserved"
        ssd_gb = (row.ssd_gib or 0.0) * 2**30 / 1e9
        if ssd_gb:
            basis += f", and an SSD of {ssd_gb:.0f} GB"
            unknown.append(
                f"{node_type} keeps values on an SSD: forecache does not simulate how long their "
                "reads take"
            )
        needs.append(
            Need(
                "data",
                scenario.data_gb,
                limit.usable_bytes / 1e9 + ssd_gb,
                "GB of data",
                grows=False,
                basis=basis,
            )
        )
    shares = scenario.hourly_shares
    peak = 1.0 if shares is None else 24.0 * max(hourly_parts(shares))
    asked = peak * sum(each.a_second for each in scenario.requests)
    if row.vcpus is None:
        unknown.append(
            f"the vCPUs of {node_type} are not known: forecache can't say whether it serves the"
            " peak"
        )
    else:
        each = BUSY_SHARE * REQUESTS_PER_VCPU * min(MOST_VCPUS, row.vcpus)
        basis = (
            f"{BUSY_SHARE:.0%} of {REQUESTS_PER_VCPU:,.0f} per vCPU, an assumed bound: "
            "30,000 to 110,000"
        )
        needs.append(
            Need("requests", asked, each, "requests/s in the peak hour", grows=True, basis=basis)
        )
    if row.baseline_gbit_per_s is not None:
        carried = sum(
            each.a_second * (each.hit_rate * each.value_bytes + OVERHEAD_BYTES)
            for each in scenario.requests
        )
        gbit = peak * carried * 8e-9
        basis = f"{BUSY_SHARE:.0%} of the baseline bandwidth; bursts do not last an hour"
        allowed = BUSY_SHARE * row.baseline_gbit_per_s
        needs.append(Need("network", gbit, allowed, "Gbit/s in the peak hour", True, basis))
    return needs, unknown


def _smallest_that_fits(scenario: CostScenario, prices: PriceTable) -> str:
    """The cheapest cluster of another type that suffices, in words."""
    engine = scenario.engine
    found = []
    for node_type, row in prices.nodes.types.items():
        if row.ssd_gib is not None:
            continue  # whose values are not all in memory
        shards = Sizing(*_needs(scenario, prices, node_type)).shards
        if shards <= MOST_SHARDS:
            usd = shards * prices.node_usd_per_hour(node_type, engine)
            found.append((usd, shards, node_type))
    if not found:
        return f"less data or load: {MOST_SHARDS} shards of no type are enough"
    _, shards, node_type = min(found)
    return f"a larger one, such as {shards} shards of {node_type}"
