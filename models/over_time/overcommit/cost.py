"""What a fleet costs, against one that has all the memory it promises."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from forecache.hwprofiles.instances import list_instances

from ...prices.table import HOURS_A_MONTH
from ...results.series import Cell, Fact, Series, Table
from .fleet import Floats
from .schema import FleetCost, OvercommitScenario


@dataclass(frozen=True)
class HostPrice:
    """What one host costs, and where that is from."""

    usd_per_hour: float
    note: str


def host_price(cost: FleetCost) -> HostPrice:
    """The price of a host; the schema knows that there is one."""
    if cost.usd_per_host_hour is not None:
        return HostPrice(cost.usd_per_host_hour, str(cost.source))
    [(found, usd)] = [
        (row, row.price_usd_per_hour)
        for row in list_instances()
        if row.name == cost.instance and row.price_usd_per_hour is not None
    ]
    note = f"{found.name} on demand in {found.region}, {found.price_date}"
    return HostPrice(usd, note)


def hosts_for(machines: Floats, *, nominal_gb: float, memory_gb: float) -> Floats:
    """Hosts that have all the memory that a number of machines is promised.

    A machine is on one host, unless it is promised more than one has.
    """
    if nominal_gb > memory_gb:
        return np.ceil(machines * nominal_gb / memory_gb)
    return np.ceil(machines / math.floor(memory_gb / nominal_gb + 1e-9))


def cost_of(
    scenario: OvercommitScenario, *, times_s: Floats, machines: Floats, wanted_gb: Floats
) -> tuple[list[Fact], list[Series], list[Table]]:
    """What a fleet costs as facts, series and tables; without a price how many hosts it saves.

    Parameters
    ----------
    times_s, machines, wanted_gb
        Times from the start, machines that there were, and what they wanted.
    """
    hosts = scenario.hosts.count
    memory_gb = scenario.hosts.memory_gb
    nominal_gb = scenario.machines.nominal_gb or memory_gb
    without = hosts_for(machines, nominal_gb=nominal_gb, memory_gb=memory_gb)
    span_s = np.diff(times_s, prepend=0.0)
    host_hours = float((without * span_s).sum()) / 3600.0
    hours = float(times_s[-1]) / 3600.0
    facts = [
        Fact(
            "hosts without overcommit",
            int(without[-1]),
            "",
            f"with all the memory that is promised at the end; there are {hosts}",
        )
    ]
    if scenario.cost is None:
        return facts, [], []
    price = host_price(scenario.cost)
    rows: list[list[Cell]] = []
    for name, mean_hosts in (
        ("the hosts there are", float(hosts)),
        ("hosts with all that is promised", host_hours / hours),
        ("saved", host_hours / hours - hosts),
    ):
        usd_per_hour = mean_hosts * price.usd_per_hour
        rows.append([name, mean_hosts, usd_per_hour, usd_per_hour * HOURS_A_MONTH])
    columns = [("", ""), ("hosts, mean", ""), ("an hour", "USD"), ("a month", "USD")]
    table = Table(
        f"Cost at {price.usd_per_hour:g} USD a host and hour ({price.note})", columns, rows
    )
    wanted_gb_hours = float((wanted_gb * span_s).sum()) / 3600.0
    if wanted_gb_hours > 0:
        each = hosts * price.usd_per_hour * hours / wanted_gb_hours
        facts.append(Fact("memory wanted costs", each, "USD/GB/h", "all hosts / demand"))
    so_far = {
        "with overcommit": np.full(len(times_s), float(hosts)),
        "without overcommit": without,
    }
    series = [
        Series(name, "USD", "cost so far", np.cumsum(count * span_s) / 3600.0 * price.usd_per_hour)
        for name, count in so_far.items()
    ]
    return facts, series, [table]
