"""An upgrade: three ways to go through the nodes, and what a run tells of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import simpy

from forecache.hwprofiles.files import FieldError
from forecache.sim.statistics import Estimate

from ...results.series import Cell
from ..recorder import Process
from .cluster import Cluster
from .events import Upgrade
from .intervals import exactly, span_with_interval
from .replacement import Replacement, ReplacementStep
from .surrogate import CapacityError

MOST_ROWS = 100
"""Steps that are told one by one."""

LIKELY = 0.5
"""The load is held if that is likelier than not; the probability is told beside."""


def upgrade(event: Upgrade, cluster: Cluster) -> Process:
    """All shards; then what was found is told, also where the run ends before the upgrade."""
    if event.method == "blue_green" and cluster.cache is not None:
        valid = "rolling or in_place with `cache`, whose clients have a list of nodes"
        raise FieldError("method", found=event.method, valid=valid)
    steps = Replacement(event, cluster)
    words = event.method.replace("_", "-" if event.method == "blue_green" else " ")
    cluster.record.mark(f"an upgrade to {steps.target.name} begins, {words}")
    cluster.at_the_end.append(lambda: report(steps))
    steps.begin()
    yield cluster.env.timeout(0.0)
    if event.method == "blue_green":
        yield from _blue_green(steps)
    else:
        turn = simpy.Resource(cluster.env, capacity=event.shards_at_once)
        yield cluster.env.all_of(
            [cluster.env.process(_in_turn(steps, shard, turn)) for shard in steps.shards]
        )
    steps.end()


def _in_turn(steps: Replacement, shard: int, turn: simpy.Resource) -> Process:
    with turn.request() as mine:
        yield mine
        if steps.given_up or shard not in steps.shards:
            return
        if steps.event.method == "rolling":
            yield from _rolling(steps, shard)
        else:
            yield from _in_place(steps, shard)


def _rolling(steps: Replacement, shard: int) -> Process:
    for replica in steps.replicas(shard):
        yield from steps.replace_replica(shard, replica)
        if steps.given_up:
            return
    primary = steps.primary(shard)
    if not steps.replicas(shard):
        yield from steps.replace_only_node(shard, primary)
    elif steps.event.failover == "manual":
        yield from steps.hand_over(shard)
        yield from steps.replace_replica(shard, primary)
    else:
        yield from steps.replace_primary(shard, primary, waits_for_failover=True)


def _in_place(steps: Replacement, shard: int) -> Process:
    for node in [steps.primary(shard), *steps.replicas(shard)]:
        if steps.given_up:
            return
        if node != steps.primary(shard):
            yield from steps.replace_replica(shard, node)
        elif steps.replicas(shard):
            yield from steps.replace_primary(shard, node, waits_for_failover=False)
        else:
            yield from steps.replace_only_node(shard, node)


def _blue_green(steps: Replacement) -> Process:
    """Add nodes, fill them, switch, take the old ones away."""
    cluster, nodes, event = steps.cluster, steps.cluster.nodes, steps.event
    yield cluster.env.timeout(event.provision_s)
    blue = [node for node in range(nodes.count) if nodes.paid[node]]
    shards = steps.shards
    # Each shard's primary first; they belong to no shard that serves.
    green = {
        shard: [
            nodes.add(steps.target.kind, shard=-1 - shard)
            for _ in range(1 + cluster.scenario.cluster.replicas)
        ]
        for shard in shards
    }
    steps.watch.extra_nodes = sum(map(len, green.values()))
    cluster.record.mark(f"{steps.watch.extra_nodes} new nodes are there, without data")
    turn = simpy.Resource(cluster.env, capacity=event.shards_at_once)
    yield cluster.env.all_of(
        [cluster.env.process(_fill(steps, shard, green[shard], turn)) for shard in shards]
    )
    if steps.given_up:
        for node in itertools.chain(*green.values()):
            nodes.retire(node)
        return
    yield from _switch(steps, blue, green)
    yield cluster.env.timeout(event.keep_s)
    for node in blue:
        nodes.retire(node)


def _fill(steps: Replacement, shard: int, green: list[int], turn: simpy.Resource) -> Process:
    """The new primary follows a replica, where there is one, and the new replicas follow it."""
    with turn.request() as mine:
        yield mine

        def source() -> int:
            return next(iter(steps.replicas(shard)), steps.primary(shard))

        def primary() -> int:
            return steps.primary(shard)

        factor = steps.target.kind.data_factor
        for number, node in enumerate(green):
            if steps.given_up:
                return
            giver = source if number == 0 else lambda: green[0]
            yield from steps.synchronise(shard, node, source=giver, writes_of=primary)
            data = steps.cluster.nodes.data_bytes
            data[node] = data[primary()] * factor


def _switch(steps: Replacement, blue: list[int], green: dict[int, list[int]]) -> Process:
    """No node takes commands; then the new ones do. Clients open connections as they need them."""
    cluster, nodes, slots = steps.cluster, steps.cluster.nodes, steps.cluster.slots
    pause_s = steps.event.switch_s
    gaps = [steps.watch.without_primary(shard) for shard in green]
    for node in blue:
        nodes.stall(node, pause_s)
    cluster.record.mark("all clients change over to the new nodes")
    yield from steps.lasts(-1, -1, "switch", exactly(pause_s), "no node takes commands")
    for node in blue:
        nodes.traffic[node] = 0.0
        nodes.shard[node] = -1 - nodes.shard[node]
    for shard, added in green.items():
        slots.primary[shard] = added[0]
        nodes.shard[added] = shard
    slots.spread()
    for gap in gaps:
        gap.ends_s = float(cluster.env.now)
    yield cluster.env.all_of([cluster.env.process(steps.drain(node)) for node in blue])


# --- what a run reports ---------------------------------------------------------------------------


def report(steps: Replacement) -> None:
    """Facts and tables, after the last step of the run."""
    record, watch, begun_s = steps.cluster.record, steps.watch, steps.begun_s
    fact = record.fact
    done = math.isfinite(steps.ended_s) and not steps.given_up
    why = steps.given_up or "the run ends before it"
    method = steps.event.method.replace("_", " ")
    what = f"{method}, {steps.target.old.engine} {steps.target.old.version} to {steps.target.name}"
    lasts_s = span_with_interval(begun_s, steps.ended_s, steps.rows) if done else None
    fact("upgrade lasts", lasts_s, "s", what if done else f"{what}: {why}")
    # Of the node of which most was asked.
    of_new = steps.cluster.nodes.kinds[watch.worst.kind] == steps.target.kind
    error = steps.cluster.capacity_error(
        steps.target.described if of_new else steps.cluster.scenario.cluster
    )
    likely = _holds(steps, error)
    losses = _losses(steps, done=done, likely=likely)
    fact("upgrade without loss", "no" if losses else "yes", "", "; ".join(losses))
    share = watch.least_rps / watch.before_rps if watch.before_rps > 0 else 0.0
    if math.isfinite(watch.least_rps):
        least = Estimate(*(watch.least_rps * end for end in (1.0, error.low, error.high)))
        fact("least capacity", least, "1/s", f"commands, {share:.0%} of what it was")
    gap = watch.longest_gap()
    # -1: a step of all shards together.
    own = [row for row in steps.rows if row.shard in (gap.shard, -1)]
    longest = span_with_interval(gap.begins_s, gap.ends_s, own)
    fact("longest time without a primary", longest, "s", f"of {len(watch.gaps)}")
    fact("failed during the upgrade", round(watch.failed), "", "commands")
    fact("turned away during the upgrade", round(watch.turned_away), "", "commands")
    until_s = min(steps.ended_s, float(steps.cluster.env.now)) + 2 * record.report_s
    before = record.largest("latency", "p99", since_s=-1.0, until_s=begun_s)
    during = record.largest("latency", "p99", since_s=begun_s, until_s=until_s)
    note = "" if before is None else f"{before:.3g} ms before"
    fact("largest p99 during the upgrade", during, "ms", note)
    if watch.lost_keys:
        fact("keys lost", round(watch.lost_keys), "", "until clients write them again")
    if watch.extra_nodes:
        hours = watch.extra_node_s / 3600.0
        fact("nodes beside the old ones", watch.extra_nodes, "", f"{hours:.3g} node-hours more")
    _tables(steps)
    record.warnings += steps.outcomes.warnings()


def _holds(steps: Replacement, error: CapacityError) -> float:
    """Tell whether the nodes that were up could do what was asked; returns how probable it is."""
    worst = steps.watch.worst
    probability = error.holds(worst.load)
    shown = f"{probability:.0%}"
    shown = ">99%" if probability > 0.99 else "<1%" if probability < 0.01 else shown
    verdict = "yes" if probability >= LIKELY else "no"
    fact = steps.cluster.record.fact
    fact("what remains holds the load", verdict, "", f"with a probability of {shown}")
    fact(
        "most asked of a node",
        Estimate(worst.load, worst.load / error.high, worst.load / error.low),
        "",
        f"times what it can do: node {worst.node} at {worst.at_s:.4g} s",
    )
    return probability


def _losses(steps: Replacement, *, done: bool, likely: float) -> list[str]:
    """What was lost, in words."""
    watch, found = steps.watch, []
    if not done:
        found.append("it is not done")
    if round(watch.failed):
        found.append(f"{round(watch.failed):,} commands failed")
    if round(watch.turned_away):
        found.append(f"{round(watch.turned_away):,} found no free worker")
    if watch.lost_keys:
        found.append(f"{round(watch.lost_keys):,} keys are lost: persistence is off")
    if likely < LIKELY:
        found.append("what remains doesn't hold the load")
    return found


def _tables(steps: Replacement) -> None:
    table = steps.cluster.record.table
    by_what: dict[str, list[ReplacementStep]] = {}
    for row in steps.rows:
        by_what.setdefault(row.what, []).append(row)
    table(
        "Upgrade: how long its steps last",
        [
            *(("step", ""), ("times", ""), ("shortest", "s"), ("longest", "s"), ("together", "s")),
            *(("from (95%)", "s"), ("to", "s")),
        ],
        [[what, *_durations(rows)] for what, rows in by_what.items()],
    )
    rows = sorted(steps.rows, key=lambda row: row.begun_s)
    some = f" (the first {MOST_ROWS} of {len(rows)})" if len(rows) > MOST_ROWS else ""
    table(
        f"Upgrade: step by step{some}",
        [("from", "s"), ("shard", ""), ("node", ""), ("step", ""), ("lasts", "s"), ("note", "")],
        [
            # Steps of all nodes together have the number -1.
            [
                row.begun_s,
                *("all" if number < 0 else number for number in (row.shard, row.node)),
                *(row.what, row.lasts_s, row.note),
            ]
            for row in rows[:MOST_ROWS]
        ],
    )
    table("Upgrade: what was assumed", [("what", ""), ("value", "")], _assumed(steps))


def _durations(rows: Sequence[ReplacementStep]) -> list[Cell]:
    """How often, shortest, longest, together with its interval where anything is uncertain."""
    lasts = [row.lasts_s for row in rows]
    low, high = (sum(getattr(row.lasts, end) for row in rows) for end in ("low", "high"))
    ends: list[Cell] = [low, high] if low < high else [None, None]
    return [len(rows), min(lasts), max(lasts), sum(lasts), *ends]


def _assumed(steps: Replacement) -> list[list[Cell]]:
    """What the scenario did not say, or nobody measured there."""
    event, given = steps.event, steps.event.model_fields_set
    method = event.method
    found: list[list[Cell]] = []

    def say(what: str, value: str, *, unless: str = "") -> None:
        if unless not in given:
            found.append([what, value])

    say("persistence", "none: a node starts empty", unless="persistence")
    if method != "blue_green":
        say("stopping and starting a process", f"{event.restart_s:g} s", unless="restart_s")
    if method == "rolling" and event.failover == "manual":
        say(
            "a manual failover", "0 to 0.1 s until the replica looks, votes and one nodes.conf each"
        )
    if method == "blue_green":
        say("clients change over within", f"{event.switch_s:g} s", unless="switch_s")
        say("the old nodes' work for new replicas", "none beside full syncs")
    if any(row.what == "full sync" for row in steps.rows):
        say("CPU time of full syncs", "of two engines measured on loopback, at this host's speed")
        say("values", "don't compress, as they were measured; strings only")
        say("the child that writes the data", "has a core of its own")
    if event.persistence == "append_only":
        say("an append-only file", "its base and changes to half of its keys")
    if "disk_mbyte_per_s" not in given and (event.persistence != "none" or steps.rows):
        say("disks", "no limit")
    if method == "rolling":
        say("clients of a replica", "leave it before it stops")
    return found
