"""What the nodes of a run cost: node-hours times a price, from the beginning to the end."""

from __future__ import annotations

import numpy as np

from forecache.hwprofiles.catalogue import load_host
from forecache.sim.errors import InputError

from ...cost.bill import node_bill
from ...cost.schema import PricedNodes
from ...engines.profile import load_engine
from ...prices.table import HOURS_A_MONTH, HourlyPrice, load_prices, served_engine, server_price
from .load.load import Load, LoadStep
from .nodes import NodeKind, Nodes
from .record import ClusterRecord
from .schema import ClusterNodes, NodeCost


def node_price(cost: NodeCost, nodes: ClusterNodes) -> HourlyPrice:
    """The price of a node."""
    if cost.usd_per_month is not None:
        return HourlyPrice(cost.usd_per_month / HOURS_A_MONTH, "usd_per_month of the scenario")
    if cost.node_type is None:
        if cost.payment != "on_demand":
            raise InputError(
                f"field cost.payment: found {cost.payment!r} for an instance; valid is on_demand, "
                "or a type in cost.node_type."
            )
        # As an instance, whoever's engine runs on it.
        price = server_price(load_host(nodes.host), "valkey")
        if price is None:
            raise InputError(
                f"field cost.node_type: found none, and {nodes.host} has no price; valid is an "
                "instance in cluster.host, cost.node_type, or cost.usd_per_month."
            )
        return HourlyPrice(price.usd_per_hour, f"{nodes.host} {price.note}")
    table = load_prices(cost.prices)
    engine = served_engine(load_engine(nodes.engine, nodes.engine_version).engine)
    one = PricedNodes(type=cost.node_type, payment=cost.payment)
    try:
        bill = node_bill(one, engine, table, hours=HOURS_A_MONTH)
    except InputError as error:
        raise InputError(str(error).replace("field nodes.type", "field cost.node_type")) from None
    paid = cost.payment.replace("_", " ")
    if bill is None:
        raise InputError(
            f"field cost.payment: found {cost.payment!r}, which {table.id} has no price of "
            f"{cost.node_type} with {engine} for; valid is on_demand, or a price in "
            "cost.usd_per_month."
        )
    note = f"{cost.node_type} with {engine}, {paid}, {table.id} of {table.date}"
    return HourlyPrice(bill.usd / HOURS_A_MONTH, note)


class NodeBill:
    """Adds node-hours up, step by step, and says what they cost: `usd` so far."""

    def __init__(
        self,
        cost: NodeCost,
        described: ClusterNodes,
        nodes: Nodes,
        load: Load,
        record: ClusterRecord,
    ) -> None:
        self._cost, self._nodes, self._record = cost, nodes, record
        self._price = node_price(cost, described)
        self._prices: dict[NodeKind, HourlyPrice] = {}
        self._node_s = self.usd = 0.0
        load.after_step.append(self._add)
        record.gauge("nodes", "USD", "cost so far", lambda: self.usd)

    def price(self, kind: NodeKind, nodes: ClusterNodes) -> None:
        """Have nodes of a kind cost what these do."""
        self._prices[kind] = node_price(self._cost, nodes)

    def _add(self, step: LoadStep) -> None:
        self._node_s += step.length_s * self._nodes.paid_count
        self.usd += step.length_s / 3600.0 * self._usd_per_hour

    @property
    def _usd_per_hour(self) -> float:
        nodes = self._nodes
        count = np.bincount(nodes.kind[nodes.paid], minlength=len(nodes.kinds))
        each = [self._prices.get(kind, self._price).usd_per_hour for kind in nodes.kinds]
        return float(count @ np.array(each))

    def finish(self) -> None:
        """Facts, after the last step."""
        record, count = self._record, self._nodes.paid_count
        an_hour = self._usd_per_hour
        record.fact("a node costs", self._price.usd_per_hour, "USD/h", self._price.note)
        for price in self._prices.values():
            if price != self._price:
                record.fact("a new node costs", price.usd_per_hour, "USD/h", price.note)
        record.fact("the run costs", self.usd, "USD", f"{self._node_s / 3600.0:.4g} node-hours")
        record.fact("nodes cost at the end", an_hour, "USD/h", f"{count} nodes")
        record.fact("a month of that", an_hour * HOURS_A_MONTH, "USD", f"{HOURS_A_MONTH:g} hours")
        answered = record.answered
        record.fact(
            "a million answered commands cost",
            self.usd / answered * 1e6 if answered else None,
            "USD",
            "all nodes of the run / what it answered" if answered else "nothing was answered",
        )
