"""What is told of an upgrade: how long steps took, what was left meanwhile, what was assumed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forecache.sim.statistics import Estimate

from ....engines.profile import EngineProfile
from ....results.series import Cell
from ..intervals import stretched
from ..surrogate import CapacityError

if TYPE_CHECKING:
    from ..nodes import NodeKind
    from ..schema import ClusterNodes
    from .steps import StepDone, UpgradeSteps

MOST_ROWS = 100
"""UpgradeSteps that are told one by one."""

LIKELY = 0.5
"""The load is held if that is likelier than not; the probability is told beside."""


@dataclass(frozen=True)
class UpgradeTarget:
    """What nodes run before and after.

    Attributes
    ----------
    described
        The nodes afterwards, as a scenario has them.
    kind
        What they can do.
    """

    old: EngineProfile
    new: EngineProfile
    described: ClusterNodes
    kind: NodeKind

    @property
    def name(self) -> str:
        """Engine, version and threads."""
        threads = self.described.io_threads
        found = f"{self.new.engine} {self.new.version}"
        return found if threads == 1 else f"{found} with io-threads {threads}"


def report(steps: UpgradeSteps, *, begun_s: float) -> None:
    """Facts and tables, after the last step of the run."""
    fact, watch, now_s = steps.cluster.record.fact, steps.watch, float(steps.cluster.env.now)
    done = math.isfinite(steps.ended_s) and not steps.given_up
    why = steps.given_up or "the run ends before it"
    method = steps.asked.method.replace("_", " ")
    what = f"{method}, {steps.target.old.engine} {steps.target.old.version} to {steps.target.name}"
    fact(
        "upgrade lasts", stretched(begun_s, steps.ended_s, steps.rows) if done else None, "s",
        what if done else f"{what}: {why}",
    )  # fmt: skip
    error = _capacity_error(steps)
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
    longest = stretched(gap.begins_s, gap.ends_s, own)
    fact("longest time without a primary", longest, "s", f"of {len(watch.gaps)}")
    fact("failed during the upgrade", round(watch.failed), "", "commands")
    fact("turned away during the upgrade", round(watch.turned_away), "", "commands")
    _latency(steps, begun_s, min(steps.ended_s, now_s))
    if watch.lost_keys:
        fact("keys lost", round(watch.lost_keys), "", "until clients write them again")
    if watch.extra_nodes:
        hours = watch.extra_node_s / 3600.0
        fact("nodes beside the old ones", watch.extra_nodes, "", f"{hours:.3g} node-hours more")
    _tables(steps)
    steps.cluster.record.warnings += steps.outcomes.warnings()


def _latency(steps: UpgradeSteps, begun_s: float, ended_s: float) -> None:
    record = steps.cluster.record
    before = record.largest("latency", "p99", since_s=-1.0, until_s=begun_s)
    during = record.largest(
        "latency", "p99", since_s=begun_s, until_s=ended_s + 2 * record.report_s
    )
    note = "" if before is None else f"{before:.3g} ms before"
    record.fact("largest p99 during the upgrade", during, "ms", note)


def _capacity_error(steps: UpgradeSteps) -> CapacityError:
    """How far off the capacity may be of the node of which most was asked."""
    cluster = steps.cluster
    kind = cluster.nodes.kinds[steps.watch.worst.kind]
    described = steps.target.described if kind == steps.target.kind else cluster.scenario.cluster
    return cluster.capacity_error(described)


def _holds(steps: UpgradeSteps, error: CapacityError) -> float:
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


def _losses(steps: UpgradeSteps, *, done: bool, likely: float) -> list[str]:
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


def _tables(steps: UpgradeSteps) -> None:
    table = steps.cluster.record.table
    by_what: dict[str, list[StepDone]] = {}
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
            [row.begun_s, _number(row.shard), _number(row.node), row.what, row.lasts_s, row.note]
            for row in rows[:MOST_ROWS]
        ],
    )
    table("Upgrade: what was assumed", [("what", ""), ("value", "")], _assumed(steps))


def _durations(rows: Sequence[StepDone]) -> list[Cell]:
    """How often, shortest, longest, together with its interval where anything is uncertain."""
    lasts = [row.lasts_s for row in rows]
    low, high = (sum(getattr(row.lasts, end) for row in rows) for end in ("low", "high"))
    ends: list[Cell] = [low, high] if low < high else [None, None]
    return [len(rows), min(lasts), max(lasts), sum(lasts), *ends]


def _number(number: int) -> Cell:
    return "all" if number < 0 else number


def _assumed(steps: UpgradeSteps) -> list[list[Cell]]:
    """What the scenario did not say, or nobody measured there."""
    asked, given = steps.asked, steps.asked.model_fields_set
    method = asked.method
    found: list[list[Cell]] = []

    def say(what: str, value: str, *, unless: str = "") -> None:
        if unless not in given:
            found.append([what, value])

    say("persistence", "none: a node starts empty", unless="persistence")
    if method != "blue_green":
        say("stopping and starting a process", f"{asked.restart_s:g} s", unless="restart_s")
    if method == "rolling" and asked.failover == "manual":
        say(
            "a manual failover", "0 to 0.1 s until the replica looks, votes and one nodes.conf each"
        )
    if method == "blue_green":
        say("clients change over within", f"{asked.switch_s:g} s", unless="switch_s")
        say("the old nodes' work for new replicas", "none beside full syncs")
    if any(row.what == "full sync" for row in steps.rows):
        say("CPU time of full syncs", "of two engines measured on loopback, at this host's speed")
        say("values", "don't compress, as they were measured; strings only")
        say("the child that writes the data", "has a core of its own")
    if asked.persistence == "append_only":
        say("an append-only file", "its base and changes to half of its keys")
    if "disk_mbyte_per_s" not in given and (asked.persistence != "none" or steps.rows):
        say("disks", "no limit")
    if method == "rolling":
        say("clients of a replica", "leave it before it stops")
    return found
