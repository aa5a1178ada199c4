"""A scenario of `kind: overcommit` as a `Run`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import simpy

from forecache.hwprofiles.instances import list_instances
from forecache.sim.streams import generator

from ...prices.table import HOURS_A_MONTH, HourlyPrice
from ...results.series import Cell, Fact, Mark, Run, Series, Table, Ticks
from .demand import SyntheticDemand, TracedDemand, Wants
from .fleet import Fleet, Floats
from .manager import HOST_POLICIES, VICTIM_POLICIES, HostPolicy, Manager, Process, VictimPolicy
from .precopy import Migration
from .schema import DAY_S, FleetCost, OvercommitScenario
from .snapshots import Snapshots
from .traces import read_trace

_ARRIVALS, _LIFETIMES = 40, 41
"""Purposes of draws."""

_SAMPLES = 600
"""Times of a series, at most."""

_NEARLY_EMPTY = 0.1
"""Share of a host's memory below which it counts as nearly empty."""


@dataclass
class _Seen:
    """What is noted over a run."""

    times_s: list[float] = field(default_factory=list)
    columns: dict[str, list[float]] = field(default_factory=dict)
    short_s: float = 0.0
    swapped_s: float = 0.0
    lived_s: float = 0.0

    def note(self, **values: float) -> None:
        """Values of one time."""
        for name, value in values.items():
            self.columns.setdefault(name, []).append(value)


def run_overcommit(
    scenario: OvercommitScenario,
    seed: int = 1,
    progress: Callable[[str], None] = lambda _line: None,
    *,
    placement: HostPolicy | None = None,
    destination: HostPolicy | None = None,
    victim: VictimPolicy | None = None,
) -> Run:
    """Simulate a fleet.

    Parameters
    ----------
    scenario
        What to simulate.
    seed
        Seed of all draws.
    progress
        Called with a sentence now and then.
    placement, destination, victim
        Policies of one's own in place of those that the scenario names.
    """
    policies = scenario.policies
    births_s = _births_s(scenario, seed=seed)
    machines = len(births_s)
    wants = _wants(scenario, machines=machines, seed=seed)
    env = simpy.Environment()
    fleet = Fleet(scenario, machines=machines)
    manager = Manager(
        env,
        fleet,
        wants,
        placement=placement or HOST_POLICIES[policies.placement],
        destination=destination or HOST_POLICIES[policies.destination],
        victim=victim or VICTIM_POLICIES[policies.victim],
        seed=seed,
    )
    unit_gb = scenario.machines.unit_gb
    first_gb = np.minimum(np.ceil(wants.at(0.0) / unit_gb) * unit_gb, fleet.nominal_gb)
    lifetimes_s = _lifetimes_s(scenario, machines=machines, seed=seed)
    for machine, born_s in enumerate(births_s):
        if born_s > 0:
            expected_gb = scenario.demand.mean_gb
            env.process(manager.arrive(machine, born_s, expected_gb=expected_gb))
        else:
            manager.place(machine, expected_gb=float(first_gb[machine]), running=True)
        if born_s + lifetimes_s[machine] < scenario.duration_s:
            env.process(manager.live(machine, born_s + lifetimes_s[machine]))
    marks = []
    first = 0
    for failure in scenario.failures:
        env.process(manager.fail(failure, first=first))
        marks.append(Mark(failure.at_s, f"{failure.hosts} hosts fail"))
        first += failure.hosts
    marks += [
        Mark(crowd.at_s, f"{crowd.share:.0%} of the machines want {crowd.factor:g} times as much")
        for crowd in scenario.crowds
    ]
    env.process(manager.look())
    seen = _Seen()
    shots = Snapshots(fleet, manager)
    # The run ends with its last step, whose sample therefore counts what the facts count.
    env.run(until=env.process(_steps(env, fleet, manager, wants, seen, shots, progress)))
    marks.sort(key=lambda mark: mark.time_s)
    return _as_run(fleet, manager, seen, shots, marks)


def _wants(scenario: OvercommitScenario, *, machines: int, seed: int) -> Wants:
    demand = scenario.demand
    if demand.trace is not None:
        trace = read_trace(
            demand.trace,
            demand.trace_layout,
            table=demand.trace_table,
            machine_gb=demand.trace_machine_gb or scenario.hosts.memory_gb,
        )
        return TracedDemand(trace, machines=machines, seed=seed)
    return SyntheticDemand(
        scenario.demand,
        scenario.crowds,
        machines=machines,
        duration_s=scenario.duration_s,
        seed=seed,
    )


def _births_s(scenario: OvercommitScenario, *, seed: int) -> Floats:
    """When each machine comes, in order: those of the start at 0, others as a Poisson process."""
    draws = generator(seed, _ARRIVALS)
    number = draws.poisson(scenario.machines.arrivals_per_hour * scenario.duration_s / 3600.0)
    later = np.sort(draws.random(number) * scenario.duration_s)
    return np.concatenate([np.zeros(scenario.machines.count), later])


def _lifetimes_s(scenario: OvercommitScenario, *, machines: int, seed: int) -> Floats:
    if scenario.machines.lifetime_h is None:
        return np.full(machines, np.inf)
    return generator(seed, _LIFETIMES).exponential(scenario.machines.lifetime_h * 3600.0, machines)


def _steps(
    env: simpy.Environment,
    fleet: Fleet,
    manager: Manager,
    wants: Wants,
    seen: _Seen,
    shots: Snapshots,
    progress: Callable[[str], None],
) -> Process:
    """The clock of the memory."""
    scenario = fleet.scenario
    step_s = scenario.step_s
    steps = round(scenario.duration_s / step_s)
    every = max(1, -(-steps // _SAMPLES))
    reported = 0
    for step in range(1, steps + 1):
        yield env.timeout(step_s)
        wanted_gb = wants.at(env.now)
        fleet.advance(env.now, step_s, wanted_gb)
        shots.look(env.now)
        here = fleet.host >= 0
        seen.lived_s += step_s * int(np.count_nonzero(here))
        seen.short_s += step_s * int(np.count_nonzero(fleet.short_gb > 0))
        seen.swapped_s += step_s * int(np.count_nonzero(fleet.swapped_gb > 0))
        if step % every == 0 or step == steps:
            fleet.check()
            _sample(env.now, fleet, manager, np.where(here, wanted_gb, 0.0), seen)
        if 10 * step // steps > reported and step < steps:
            reported = 10 * step // steps
            progress(f"{env.now / 3600:.1f} h: {len(manager.migrations)} migrations so far")


def _sample(time_s: float, fleet: Fleet, manager: Manager, wanted_gb: Floats, seen: _Seen) -> None:
    shares = fleet.host_gb()[fleet.up] / fleet.memory_gb
    seen.times_s.append(time_s)
    seen.note(
        wanted_gb=float(np.minimum(wanted_gb, fleet.nominal_gb).sum()),
        taken_gb=float(fleet.taken_gb.sum()),
        swapped_gb=float(fleet.swapped_gb.sum()),
        short_gb=float(fleet.short_gb.sum()),
        mean=float(shares.mean()),
        p95=float(np.quantile(shares, 0.95)),
        fullest=float(shares.max()),
        hot=float(np.count_nonzero(shares > fleet.scenario.heat.move_above)),
        nearly_empty=float(np.count_nonzero(shares < _NEARLY_EMPTY)),
        under_way=float(manager.under_way),
        migrations=float(len(manager.migrations)),
        machines=float(np.count_nonzero(fleet.host >= 0)),
    )


PER_MACHINE_DAY = "s per machine-day"
"""Unit of times of machines, of all the time that machines ran."""

_SERIES = (
    ("wanted_gb", "wanted", "GB", "memory"),
    ("taken_gb", "taken", "GB", "memory"),
    ("swapped_gb", "on disk", "GB", "memory refused"),
    ("short_gb", "refused", "GB", "memory refused"),
    ("mean", "mean of hosts", "share", "share of a host taken"),
    ("p95", "95% of hosts below", "share", "share of a host taken"),
    ("fullest", "fullest host", "share", "share of a host taken"),
    ("hot", "hot", "", "hosts"),
    ("nearly_empty", "nearly empty", "", "hosts"),
    ("under_way", "under way", "", "migrations at a time"),
    ("migrations", "ended so far", "", "migrations"),
)


def _as_run(
    fleet: Fleet, manager: Manager, seen: _Seen, shots: Snapshots, marks: list[Mark]
) -> Run:
    times_s = np.array(seen.times_s)
    columns = {name: np.array(values) for name, values in seen.columns.items()}
    cost_facts, cost_series, tables = cost_of(
        fleet.scenario,
        times_s=times_s,
        machines=columns["machines"],
        wanted_gb=columns["wanted_gb"],
    )
    done = [m for m in manager.migrations if m.converged]
    given_up = len(manager.migrations) - len(done)
    ups = max(1, fleet.scale_ups)
    lived_s = max(seen.lived_s, 1e-9)
    a_day = DAY_S / lived_s
    fault_s = fleet.scenario.migration.write_fault_us / 1e6
    promised = fleet.nominal_gb * int(np.count_nonzero(fleet.host >= 0))
    physical = fleet.memory_gb * int(np.count_nonzero(fleet.up))
    facts = [
        Fact("promised per byte of memory", promised / physical, "", "at the end"),
        *cost_facts,
        Fact(
            "fullest host",
            shots.fullest_share,
            "share",
            f"of its memory, {shots.fullest_s / 3600:.1f} h in",
        ),
        Fact("scale-ups", fleet.scale_ups, "", "a machine begins to need more units than it has"),
        Fact("refused at first", fleet.refused_scale_ups, "", "because the host has no room"),
        Fact("live migrations", len(done), "", f"{given_up} more were given up"),
        Fact("live migrations that were given up", given_up),
        Fact(
            "migrations in 10,000 scale-ups",
            1e4 * len(manager.migrations) / ups,
            "",
            "those that were given up included",
        ),
        *_blackouts(done, fault_s=fault_s),
        Fact(
            "time standing still",
            sum(m.blackout_s for m in done) * a_day,
            PER_MACHINE_DAY,
            "blackouts of live migrations",
        ),
        Fact(
            "time lost to writes held up",
            sum(m.slowed_s(fault_s) for m in manager.migrations) * a_day,
            PER_MACHINE_DAY,
            "first writes to pages that a live migration had sent",
        ),
        Fact(
            "wait for memory, 99.9% of scale-ups",
            fleet.wait_s(0.999),
            "s",
            "most don't wait at all",
        ),
        Fact(
            "time short of memory",
            seen.short_s * a_day,
            PER_MACHINE_DAY,
            "a machine needs more than its host gives",
        ),
        Fact(
            "time with memory on disk",
            seen.swapped_s * a_day,
            PER_MACHINE_DAY,
            "part of a machine's demand is swapped",
        ),
        Fact("killed", manager.killed),
        Fact("restarted after a failure", manager.restarted),
        Fact("machines that no host had room for", manager.unplaced),
    ]
    warnings = []
    if manager.unplaced:
        warnings.append(f"{manager.unplaced} machines found no host with room")
    if seen.short_s > 0.001 * lived_s:
        warnings.append("machines are short of memory for more than a thousandth of their time")
    return Run(
        times_s,
        [*(Series(t, u, p, columns[key]) for key, t, u, p in _SERIES), *cost_series],
        facts=facts,
        marks=marks,
        tables=tables,
        warnings=warnings,
        ticks=[_migrations(manager, times_s)],
        stacks=shots.stacks(end_s=float(times_s[-1])),
    )


def _migrations(manager: Manager, times_s: Floats) -> Ticks:
    """How many ended between one sample and the next, those that were given up included."""
    ended_s = np.sort([move.ended_s for move in manager.moves])
    so_far = np.searchsorted(ended_s, times_s, side="right")
    return Ticks("live migrations", np.diff(so_far, prepend=0))


def _blackouts(done: list[Migration], *, fault_s: float) -> list[Fact]:
    if not done:
        return [Fact("blackout", None, "ms", "no machine moved")]
    blackouts_ms = np.array([1e3 * m.blackout_s for m in done])
    return [
        Fact("blackout, median", float(np.median(blackouts_ms)), "ms"),
        Fact("blackout, 99%", float(np.quantile(blackouts_ms, 0.99)), "ms"),
        Fact("migration, median", float(np.median([m.duration_s for m in done])), "s"),
        Fact(
            "throughput lost while it moves, median",
            float(np.median([m.throughput_lost(fault_s) for m in done])),
            "share",
            "of a busy thread, to writes that are held up",
        ),
    ]


def host_price(cost: FleetCost) -> HourlyPrice:
    """The price of a host; the schema knows that there is one."""
    if cost.usd_per_host_hour is not None:
        return HourlyPrice(cost.usd_per_host_hour, str(cost.source))
    [(found, usd)] = [
        (row, row.usd_per_hour)
        for row in list_instances()
        if row.name == cost.instance and row.usd_per_hour is not None
    ]
    note = f"{found.name} on demand in {found.region}, {found.priced}"
    return HourlyPrice(usd, note)


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
