"""A scenario of `kind: overcommit` as a `Run`, with what hosts cost and a few snapshots of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import simpy
from numpy.typing import NDArray

from forecache.hwprofiles.instances import list_instances
from forecache.sim.streams import generator

from ...prices.table import HOURS_A_MONTH, HourlyPrice
from ...results.series import MOST_BARS, Bar, Cell, Layer, LimitLine, Mark, Run, Stack, Ticks
from ..recorder import Process, Recorder
from .demand import SyntheticDemand, TracedDemand, Wants, read_trace
from .fleet import Fleet, Floats, Ints
from .manager import (
    HOST_POLICIES,
    VICTIM_POLICIES,
    HostPolicy,
    MachineMove,
    Manager,
    VictimPolicy,
)
from .schema import DAY_S, FleetCost, OvercommitScenario

_ARRIVALS, _LIFETIMES = 40, 41
"""Purposes of draws."""

_SAMPLES = 600
"""Times of a series, at most."""

_NEARLY_EMPTY = 0.1
"""Share of a host's memory below which it counts as nearly empty."""

PER_MACHINE_DAY = "s per machine-day"
"""Unit of times of machines, of all the time that machines ran."""


@dataclass
class _Totals:
    """Time that all machines together lived, were short of memory, and had memory on disk; how
    many there were at each sample."""

    lived_s: float = 0.0
    short_s: float = 0.0
    swapped_s: float = 0.0
    machines: list[float] = field(default_factory=list)


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
    record = Recorder()
    first = 0
    for failure in scenario.failures:
        env.process(manager.fail(failure, first=first))
        record.marks.append(Mark(failure.at_s, f"{failure.hosts} hosts fail"))
        first += failure.hosts
    for crowd in scenario.crowds:
        what = f"{crowd.share:.0%} of the machines want {crowd.factor:g} times as much"
        record.marks.append(Mark(crowd.at_s, what))
    env.process(manager.look())
    total = _Totals()
    shots = Snapshots(fleet, manager)
    steps = _steps(env, fleet, manager, wants, record, total, shots, progress)
    # The run ends with its last step, whose sample therefore counts what the facts count.
    env.run(until=env.process(steps))
    return _answered(fleet, manager, record, total, shots)


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
    record: Recorder,
    total: _Totals,
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
        total.lived_s += step_s * int(np.count_nonzero(here))
        total.short_s += step_s * int(np.count_nonzero(fleet.short_gb > 0))
        total.swapped_s += step_s * int(np.count_nonzero(fleet.swapped_gb > 0))
        if step % every == 0 or step == steps:
            fleet.check()
            record.times_s.append(env.now)
            total.machines.append(float(np.count_nonzero(here)))
            _sample(fleet, manager, np.where(here, wanted_gb, 0.0), record)
        if 10 * step // steps > reported and step < steps:
            reported = 10 * step // steps
            progress(f"{env.now / 3600:.1f} h: {len(manager.migrations)} migrations so far")


def _sample(fleet: Fleet, manager: Manager, wanted_gb: Floats, record: Recorder) -> None:
    shares = fleet.host_gb()[fleet.up] / fleet.memory_gb
    hot = np.count_nonzero(shares > fleet.scenario.heat.move_above)
    add = record.add
    add("wanted", "GB", "memory", float(np.minimum(wanted_gb, fleet.nominal_gb).sum()))
    add("taken", "GB", "memory", float(fleet.taken_gb.sum()))
    add("on disk", "GB", "memory refused", float(fleet.swapped_gb.sum()))
    add("refused", "GB", "memory refused", float(fleet.short_gb.sum()))
    add("mean of hosts", "share", "share of a host taken", float(shares.mean()))
    add("95% of hosts below", "share", "share of a host taken", float(np.quantile(shares, 0.95)))
    add("fullest host", "share", "share of a host taken", float(shares.max()))
    add("hot", "", "hosts", float(hot))
    add("nearly empty", "", "hosts", float(np.count_nonzero(shares < _NEARLY_EMPTY)))
    add("under way", "", "migrations at a time", float(manager.under_way))
    add("ended so far", "", "migrations", float(len(manager.migrations)))


def _answered(
    fleet: Fleet, manager: Manager, record: Recorder, total: _Totals, shots: Snapshots
) -> Run:
    """The run, with its facts."""
    times_s, fact = np.array(record.times_s), record.fact
    done = [m for m in manager.migrations if m.converged]
    given_up = len(manager.migrations) - len(done)
    lived_s = max(total.lived_s, 1e-9)
    a_day = DAY_S / lived_s
    fault_s = fleet.scenario.migration.write_fault_us / 1e6
    promised = fleet.nominal_gb * int(np.count_nonzero(fleet.host >= 0))
    physical = fleet.memory_gb * int(np.count_nonzero(fleet.up))
    fact("promised per byte of memory", promised / physical, "", "at the end")
    _cost(fleet.scenario, record, machines=np.array(total.machines))
    when = f"of its memory, {shots.fullest_s / 3600:.1f} h in"
    fact("fullest host", shots.fullest_share, "share", when)
    begins = "a machine begins to need more units than it has"
    fact("scale-ups", fleet.scale_ups, "", begins)
    fact("refused at first", fleet.refused_scale_ups, "", "because the host has no room")
    fact("live migrations", len(done), "", f"{given_up} more were given up")
    fact("live migrations that were given up", given_up)
    each = 1e4 * len(manager.migrations) / max(1, fleet.scale_ups)
    fact("migrations in 10,000 scale-ups", each, "", "those that were given up included")
    if done:
        blackouts_ms = np.array([1e3 * m.blackout_s for m in done])
        lost = float(np.median([m.throughput_lost(fault_s) for m in done]))
        fact("blackout, median", float(np.median(blackouts_ms)), "ms")
        fact("blackout, 99%", float(np.quantile(blackouts_ms, 0.99)), "ms")
        fact("migration, median", float(np.median([m.duration_s for m in done])), "s")
        held_up = "of a busy thread, to writes that are held up"
        fact("throughput lost while it moves, median", lost, "share", held_up)
    else:
        fact("blackout", None, "ms", "no machine moved")
    still_s = sum(m.blackout_s for m in done) * a_day
    fact("time standing still", still_s, PER_MACHINE_DAY, "blackouts of live migrations")
    slowed_s = sum(m.slowed_s(fault_s) for m in manager.migrations) * a_day
    first_writes = "first writes to pages that a live migration had sent"
    fact("time lost to writes held up", slowed_s, PER_MACHINE_DAY, first_writes)
    wait_s = fleet.wait_s(0.999)
    fact("wait for memory, 99.9% of scale-ups", wait_s, "s", "most don't wait at all")
    short_s, swapped_s = total.short_s * a_day, total.swapped_s * a_day
    refused = "a machine needs more than its host gives"
    fact("time short of memory", short_s, PER_MACHINE_DAY, refused)
    on_disk = "part of a machine's demand is swapped"
    fact("time with memory on disk", swapped_s, PER_MACHINE_DAY, on_disk)
    fact("killed", manager.killed)
    fact("restarted after a failure", manager.restarted)
    fact("machines that no host had room for", manager.unplaced)
    if manager.unplaced:
        record.warnings.append(f"{manager.unplaced} machines found no host with room")
    if total.short_s > 0.001 * lived_s:
        warning = "machines are short of memory for more than a thousandth of their time"
        record.warnings.append(warning)
    # Migrations between one sample and the next, those that were given up included.
    ended_s = np.sort([move.ended_s for move in manager.moves])
    so_far = np.searchsorted(ended_s, times_s, side="right")
    return record.run(
        ticks=[Ticks("live migrations", np.diff(so_far, prepend=0))],
        stacks=shots.stacks(end_s=float(times_s[-1])),
    )


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


def _cost(scenario: OvercommitScenario, record: Recorder, *, machines: Floats) -> None:
    """What a fleet costs; without a price how many hosts it saves.

    Parameters
    ----------
    machines
        (times,) machines that there were.
    """
    hosts, memory_gb = scenario.hosts.count, scenario.hosts.memory_gb
    nominal_gb = scenario.machines.nominal_gb or memory_gb
    without = hosts_for(machines, nominal_gb=nominal_gb, memory_gb=memory_gb)
    times_s = np.array(record.times_s)
    span_s = np.diff(times_s, prepend=0.0)
    host_hours = float((without * span_s).sum()) / 3600.0
    hours = float(times_s[-1]) / 3600.0
    note = f"with all the memory that is promised at the end; there are {hosts}"
    record.fact("hosts without overcommit", int(without[-1]), "", note)
    if scenario.cost is None:
        return
    price = host_price(scenario.cost)
    rows: list[list[Cell]] = []
    for name, mean_hosts in (
        ("the hosts there are", float(hosts)),
        ("hosts with all that is promised", host_hours / hours),
        ("saved", host_hours / hours - hosts),
    ):
        usd_per_hour = mean_hosts * price.usd_per_hour
        rows.append([name, mean_hosts, usd_per_hour, usd_per_hour * HOURS_A_MONTH])
    record.table(
        f"Cost at {price.usd_per_hour:g} USD a host and hour ({price.note})",
        [("", ""), ("hosts, mean", ""), ("an hour", "USD"), ("a month", "USD")],
        rows,
    )
    wanted_gb_hours = float((record.values("memory", "wanted") * span_s).sum()) / 3600.0
    if wanted_gb_hours > 0:
        each = hosts * price.usd_per_hour * hours / wanted_gb_hours
        record.fact("memory wanted costs", each, "USD/GB/h", "all hosts / demand")
    for name, count in (
        ("with overcommit", np.full(len(times_s), float(hosts))),
        ("without overcommit", without),
    ):
        usd = np.cumsum(count * span_s) / 3600.0 * price.usd_per_hour
        record.series(name, "USD", "cost so far", usd)


# --- hosts as stacked bars at a few telling times: what is on them, which machine moves -----------


_OTHERS, _THIRD, _SECOND, _LARGEST, _CAME, _COPY, _LEAVES = range(7)
_LAYERS = (
    Layer("other machines"),
    Layer("third largest"),
    Layer("second largest"),
    Layer("largest machine"),
    Layer("came by migration", stands_out=True),
    Layer("copy on its way here", stands_out=True),
    Layer("leaves next", stands_out=True),
)
_MOST_TOLD = 3
"""Moves that are told about a host."""


@dataclass(frozen=True)
class FleetSnapshot:
    """Who had what where at one time; arrays as in `Fleet`."""

    title: str
    time_s: float
    host: Ints
    copy_to: Ints
    taken_gb: Floats
    up: NDArray[np.bool_]


class Snapshots:
    """Takes them: at the start, when a host was fullest, when most machines moved, at the end."""

    def __init__(self, fleet: Fleet, manager: Manager) -> None:
        self._fleet, self._manager = fleet, manager
        self._first = self._take("at the start", 0.0)
        self._fullest: FleetSnapshot | None = None
        self._before: tuple[float, FleetSnapshot] | None = None
        self._moving: tuple[tuple[int, float], FleetSnapshot] | None = None
        self._begun = 0
        self.fullest_share = float(self._shares().max())
        """Greatest share of a host's memory taken at any step."""

    def _shares(self) -> Floats:
        return self._fleet.host_gb() / self._fleet.memory_gb

    def _take(self, title: str, time_s: float) -> FleetSnapshot:
        fleet = self._fleet
        return FleetSnapshot(
            title,
            time_s,
            host=fleet.host.copy(),
            copy_to=fleet.copy_to.copy(),
            taken_gb=fleet.taken_gb.copy(),
            up=fleet.up.copy(),
        )

    def look(self, time_s: float) -> None:
        """Keep this step if it tells more than those before; to be called at each."""
        share = float(self._shares().max())
        begun = self._manager.begun - self._begun
        self._begun += begun
        if begun and self._before is not None:
            fullest, shot = self._before
            if self._moving is None or (begun, fullest) > self._moving[0]:
                self._moving = (begun, fullest), shot
        # Machines leave hosts that are hot, so that there is no need to keep other steps.
        hot = share > self._fleet.scenario.heat.move_above
        self._before = (share, self._take("when most machines moved", time_s)) if hot else None
        if share > self.fullest_share:
            self.fullest_share = share
            self._fullest = self._take("when a host was fullest", time_s)

    @property
    def fullest_s(self) -> float:
        """When that was."""
        return self._fullest.time_s if self._fullest else 0.0

    def stacks(self, *, end_s: float) -> list[Stack]:
        """The bars of each, now that the run has ended at `end_s`."""
        taken = {0.0: self._first, end_s: self._take("at the end", end_s)}
        for shot in (self._moving[1] if self._moving else None, self._fullest):
            if shot is not None:
                taken[shot.time_s] = shot
        return [_stack(taken[time_s], self._fleet, self._manager.moves) for time_s in sorted(taken)]


def _stack(shot: FleetSnapshot, fleet: Fleet, moves: Sequence[MachineMove]) -> Stack:
    heat = fleet.scenario.heat
    soon_s = shot.time_s + max(heat.look_every_s, fleet.scenario.step_s)
    leave = [m for m in moves if m.began_s <= soon_s and m.ended_s >= shot.time_s]
    leave = [m for m in leave if shot.host[m.machine] == m.source]
    came = {m.machine: m for m in moves if m.moved and m.ended_s <= shot.time_s}
    came = {k: m for k, m in came.items() if shot.host[k] == m.target}
    sizes_gb = _sizes_gb(shot, leave=[m.machine for m in leave], came=list(came))
    totals_gb = sizes_gb.sum(axis=1)
    up = np.flatnonzero(shot.up)
    order = up[np.argsort(-totals_gb[up], kind="stable")]
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), MOST_BARS)).round())
                  .astype(np.int64)]  # fmt: skip
    told: dict[int, list[str]] = {}
    for m in leave:
        size = f"machine {m.machine}, {shot.taken_gb[m.machine]:.3g} GB,"
        told.setdefault(m.source, []).append(f"{size} leaves for host {m.target}")
        told.setdefault(m.target, []).append(f"{size} comes from host {m.source}")
    for m in came.values():
        told.setdefault(m.target, []).append(f"machine {m.machine} came from host {m.source}")
    hot_gb = heat.move_above * fleet.memory_gb
    bars = [
        Bar(
            f"host {host}",
            sizes_gb[host].tolist(),
            flag="hot" if totals_gb[host] > hot_gb else "",
            note=_listed(told.get(int(host), [])),
        )
        for host in shown
    ]
    return Stack(
        shot.title,
        shot.time_s,
        "GB",
        "host",
        count=len(order),
        layers=_LAYERS,
        bars=bars,
        limits=[
            LimitLine("memory of a host", fleet.memory_gb),
            LimitLine(f"hot above {heat.move_above:.0%}", hot_gb),
        ],
    )


def _sizes_gb(shot: FleetSnapshot, *, leave: Sequence[int], came: Sequence[int]) -> Floats:
    """(hosts, layers) memory of each layer."""
    hosts = len(shot.up)
    here = np.flatnonzero(shot.host >= 0)
    layer = np.full(len(shot.host), _OTHERS)
    layer[list(came)] = _CAME
    layer[list(leave)] = _LEAVES
    staying = here[layer[here] == _OTHERS]
    order = staying[np.lexsort((-shot.taken_gb[staying], shot.host[staying]))]
    on = shot.host[order]
    rank = np.arange(len(order)) - np.searchsorted(on, on, side="left")
    for place, name in enumerate((_LARGEST, _SECOND, _THIRD)):
        layer[order[rank == place]] = name
    sizes_gb = np.zeros((hosts, len(_LAYERS)))
    np.add.at(sizes_gb, (shot.host[here], layer[here]), shot.taken_gb[here])
    copied = np.flatnonzero(shot.copy_to >= 0)
    np.add.at(sizes_gb[:, _COPY], shot.copy_to[copied], shot.taken_gb[copied])
    return sizes_gb


def _listed(notes: Sequence[str]) -> str:
    more = len(notes) - _MOST_TOLD
    return "; ".join([*notes[:_MOST_TOLD], *([f"{more} more"] if more > 0 else [])])
