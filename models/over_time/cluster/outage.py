"""What nodes that fail do to their cluster, from the failure until everybody is served again.

When nodes are suspected and declared failed, and which replicas are elected when, is known from the
beginning (`failover.py`). In between clients see this (`clusterUpdateState` and
`clusterGenNodesSlotsInfo` of cluster_legacy.c):

* A node that failed serves nothing. Of a replica that failed, clients go on reading until it is
  declared failed and left out of the slot table.
* From the time on when a primary is declared failed until a replica has taken its place, all nodes
  refuse all commands, if they require that all slots are covered. They do so too, from the first
  suspicion of many primaries on, where no majority of them is left.
* Nodes that are back follow the primary of their shard, and serve once they have its data; or they
  are the primary, if nobody took their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from forecache.hwprofiles.files import FieldError

from ...engines.profile import load_engine
from ...results.series import Cell
from ..recorder import Process
from .cluster import Cluster
from .events import FAILING, Fail, Upgrade, UpgradeTo
from .failover import Failover, fail_over, rules_for
from .replacement import Replacement

_MOST_MARKS = 10
"""Nodes that are marked one by one."""

MOST_ROWS = 100
"""Nodes that a table has."""

_UNDO_TIMEOUTS = 2.0
"""After which a primary that is back counts as working again (`clearNodeFailureIfNeeded`)."""


def fail(event: Fail, cluster: Cluster) -> Process:
    """Nodes fail, are noticed, are replaced, and come back."""
    yield from Outage(event, cluster, failing_nodes(event, cluster)).run()


def failing_nodes(event: Fail, cluster: Cluster) -> list[int]:
    """Numbers of the nodes that fail, of those that run.

    Raises
    ------
    FieldError
        There are fewer, or there is no such node, shard, machine or zone.
    """
    slots, nodes = cluster.slots, cluster.nodes
    rng = np.random.default_rng([cluster.seed, round(1e3 * event.at_s), 7020])
    up = [node for node in range(nodes.count) if nodes.is_up(node) and nodes.paid[node]]
    primary = {shard: node for shard in slots.shards if (node := slots.primary[shard]) in up}
    replicas = [node for node in up if node not in set(primary.values())]
    found = {
        *_some(event, "primaries", {shard: [node] for shard, node in primary.items()}, rng),
        *_some(event, "nodes", {node: [node] for node in up}, rng),
    }
    if isinstance(event.replicas, list):
        found |= _of_shards(event.replicas, replicas, nodes.shard)
    else:
        found |= set(_some(event, "replicas", {node: [node] for node in replicas}, rng))
    if event.machines is not None or event.zones is not None:
        placed = cluster.placement()
        for name, where, count in (
            ("machines", placed.machine, placed.machines),
            ("zones", placed.zone, placed.zones),
        ):
            on = {each: [n for n in up if where[n] == each] for each in range(count)}
            found |= set(_some(event, name, on, rng))
    if not found:
        raise FieldError("nodes", found="no node that runs", valid="one that does")
    return sorted(found)


def _some(
    event: Fail, field: str, there: dict[int, list[int]], rng: np.random.Generator
) -> Iterable[int]:
    """The nodes that a field means, of those that there are by number."""
    asked = getattr(event, field)
    if field == "primaries" and all(getattr(event, name) is None for name in FAILING):
        asked = 1
    if asked is None:
        return []
    if isinstance(asked, int):
        if asked > len(there):
            raise FieldError(
                field, found=asked, valid=f"at most the {len(there)} {field} that there are"
            )
        numbers: Sequence[int] = sorted(there)
        picked = rng.permutation(len(numbers))[:asked] if event.random else range(asked)
        numbers = [numbers[each] for each in picked]
    else:
        numbers = asked
    for number in numbers:
        if number not in there:
            known = f"one of {', '.join(map(str, sorted(there)[:20]))}" if there else "none"
            raise FieldError(field, found=number, valid=known)
    return [node for number in numbers for node in there[number]]


def _of_shards(shards: Sequence[int], replicas: Sequence[int], shard_of: np.ndarray) -> set[int]:
    """A replica of each shard, another one where it is named again."""
    found: set[int] = set()
    for shard in shards:
        left = [node for node in replicas if shard_of[node] == shard and node not in found]
        if not left:
            raise FieldError("replicas", found=shard, valid="shards with a replica that runs")
        found.add(left[0])
    return found


class Outage:
    """Some nodes of a cluster that fail at once, and what becomes of them."""

    def __init__(self, event: Fail, cluster: Cluster, nodes: list[int]) -> None:
        self._event, self._cluster = event, cluster
        self._slots = slots = cluster.slots
        self._begun_s = float(cluster.env.now)
        shard_of = cluster.nodes.shard
        primaries = {node: shard for shard, node in slots.primary.items() if node is not None}
        self._primaries = {primaries[node]: node for node in nodes if node in primaries}
        self._replicas = [node for node in nodes if node not in primaries]
        self._shard_of = {node: int(shard_of[node]) for node in nodes}
        self._before = (len(slots.shards), int(np.count_nonzero(cluster.nodes.paid)))
        self._back: dict[int, float] = {}
        self._uncovered = False
        self._steps: Replacement | None = None
        for node in nodes:
            cluster.nodes.set_down(node, silent=event.silent)
        self._read_from = {n for n in self._replicas if cluster.nodes.traffic[n] > 0}
        slots.unnoticed |= self._read_from
        self._found = self._fail_over()
        self._declared = dict(
            zip(
                [*self._primaries.values(), *self._replicas],
                [*self._found.failed_s.tolist(), *self._found.replicas_failed_s.tolist()],
                strict=True,
            )
        )
        self._elected = dict(zip(self._primaries, self._found.recovered_s.tolist(), strict=True))
        self._forget_what_comes_too_late()

    def _fail_over(self) -> Failover:
        cluster, slots, event = self._cluster, self._slots, self._event
        described = cluster.scenario.cluster
        engine = load_engine(described.engine, described.engine_version)
        how = {} if event.ranked is None else {"ranked": event.ranked}
        rules = rules_for(
            engine.engine,
            engine.version,
            primaries=len(slots.shards),
            replicas=described.replicas,
            node_timeout_s=event.node_timeout_s,
            **how,
        )
        away = sum(
            not cluster.nodes.is_up(slots.primary[shard] or 0)
            for shard in slots.shards
            if shard not in self._primaries
        )
        return fail_over(
            rules,
            len(self._primaries),
            replicas=len(self._replicas),
            away=away,
            electable=[len(slots.replicas(shard)) for shard in self._primaries],
            seed=cluster.seed,
        )

    def _forget_what_comes_too_late(self) -> None:
        """Nodes that are back before they are declared failed are no longer taken to be."""
        back_s = self._event.back_after_s
        if back_s is None:
            return
        for node, declared_s in self._declared.items():
            if declared_s >= back_s:
                self._declared[node] = math.inf
                if node in self._primaries.values():
                    self._elected[self._shard_of[node]] = math.inf

    # --- what happens when ------------------------------------------------------------------------

    def run(self) -> Process:
        """Everything that follows, in its order."""
        env, found = self._cluster.env, self._found
        self._cluster.record.mark(self._words())
        self._cluster.at_the_end.append(self._report)
        happens: list[tuple[float, Callable[[], None]]] = [
            (found.suspected_s, partial(self._mark, "a node is suspected (PFAIL)")),
            (found.minority_s, self._no_majority),
            *((after_s, partial(self._declare, node)) for node, after_s in self._declared.items()),
            *((after_s, partial(self._elect, shard)) for shard, after_s in self._elected.items()),
        ]
        if self._event.back_after_s is not None:
            happens.append((self._event.back_after_s, self._come_back))
        for after_s, action in sorted(happens, key=lambda each: each[0]):
            if math.isfinite(after_s):
                yield env.timeout(max(0.0, self._begun_s + after_s - env.now))
                action()

    def _mark(self, what: str) -> None:
        self._cluster.record.mark(what)

    def _mark_one(self, what: str) -> None:
        if len(self._declared) <= _MOST_MARKS:
            self._mark(what)

    def _no_majority(self) -> None:
        if self._has_majority():
            return  # some are back already
        self._slots.minority = True
        self._mark("no majority of the primaries is reachable: all nodes refuse commands")
        self._update_state()

    def _declare(self, node: int) -> None:
        """A node is declared failed (FAIL)."""
        shard = self._shard_of[node]
        if not self._has_majority():
            self._declared[node] = math.inf  # more have failed meanwhile
            return
        self._slots.unnoticed.discard(node)
        if self._primaries.get(shard) != node:
            self._mark_one(f"node {node}, a replica of shard {shard}, is declared failed (FAIL)")
            self._spread()
            return
        self._mark_one(f"node {node}, the primary of shard {shard}, is declared failed (FAIL)")
        if not self._slots.replicas(shard):
            self._slots.lose(shard)
        self._slots.uncovered.add(shard)
        self._update_state()

    def _elect(self, shard: int) -> None:
        """A replica becomes the primary of a shard."""
        replicas = self._slots.replicas(shard)
        declared = math.isfinite(self._declared[self._primaries[shard]])
        if not (replicas and declared and self._has_majority()):
            self._elected[shard] = math.inf  # more have failed meanwhile
            return
        self._slots.primary[shard] = replicas[0]
        self._spread()
        self._slots.uncovered.discard(shard)
        self._mark_one(f"shard {shard} has a primary again")
        self._update_state()

    def _has_majority(self) -> bool:
        """Whether so many primaries run."""
        slots, nodes = self._slots, self._cluster.nodes
        there = [slots.primary[shard] for shard in slots.shards]
        running = sum(node is not None and nodes.is_up(node) for node in there)
        return running >= len(there) // 2 + 1

    def _spread(self) -> None:
        if self._cluster.cache is None:  # whose clients have a list of nodes
            self._slots.spread()

    def _update_state(self) -> None:
        """Nodes refuse all commands, or no longer."""
        slots = self._slots
        covers = self._cluster.scenario.cluster.covers_fully and self._cluster.cache is None
        uncovered = covers and bool(slots.uncovered)
        if uncovered and not (self._uncovered or slots.minority):
            self._mark("slots have no primary: all nodes refuse commands (require_full_coverage)")
        self._uncovered = uncovered
        self._cluster.nodes.refuse_all(slots.minority or uncovered)

    def _come_back(self) -> None:
        """Processes run again where nodes had failed."""
        self._mark_one("the nodes that failed run again")
        if self._cluster.cache is None:
            self._steps = self._catching_up()
        for node in self._declared:
            self._cluster.env.process(self._return(node))

    def _catching_up(self) -> Replacement:
        """How nodes get the data that they lack: as after an upgrade to what they run already."""
        cluster, event = self._cluster, self._event
        described = cluster.scenario.cluster
        again = Upgrade(
            event="upgrade",
            at_s=self._begun_s,
            to=UpgradeTo(engine=described.engine, engine_version=described.engine_version),
            persistence="snapshot" if event.keeps_data else "none",
            node_timeout_s=event.node_timeout_s,
        )
        steps = Replacement(again, cluster)
        steps.recent.begin()
        return steps

    def _return(self, node: int) -> Process:
        """A node is the primary again that it was, or follows the one that there is now."""
        cluster, slots, shard = self._cluster, self._slots, self._shard_of[node]
        env, nodes = cluster.env, cluster.nodes
        if self._primaries.get(shard) == node and slots.primary[shard] == node:
            declared_s = self._declared[node]
            if math.isfinite(declared_s):
                undone_s = declared_s + _UNDO_TIMEOUTS * self._event.node_timeout_s
                yield env.timeout(max(0.0, self._begun_s + undone_s - env.now))
            if slots.primary[shard] == node:
                self._resume(node, shard)
                return
        if self._steps is None:
            nodes.set_up(node)
            self._back[node] = float(env.now)
            return
        # What clients ask is looked at for a moment before a sync begins.
        yield env.timeout(cluster.load.step_s)
        yield from self._steps.catch_up(shard, node, stopped_s=self._begun_s)
        if nodes.is_up(node):
            slots.unnoticed.discard(node)
            self._back[node] = float(env.now)
            self._mark_one(f"node {node} is back as a replica of shard {shard}")

    def _resume(self, node: int, shard: int) -> None:
        """A primary that nobody has replaced serves its slots again."""
        cluster, kept = self._cluster, self._event.keeps_data
        cluster.nodes.set_up(node, with_data=kept)
        self._slots.regain(shard)
        self._spread()
        self._slots.uncovered.discard(shard)
        self._slots.minority &= not self._has_majority()
        self._back[node] = float(cluster.env.now)
        if not kept and self._steps is not None:
            self._steps.watch.lose_keys(shard, self._steps.content(shard).keys)
        without = "" if kept else ", without its data"
        self._mark_one(f"node {node} is the primary of shard {shard} again{without}")
        self._update_state()

    # --- what a run reports -----------------------------------------------------------------------

    def _words(self) -> str:
        """What fails."""
        primaries, nodes = self._before
        found = []
        if self._primaries:
            found.append(f"{len(self._primaries)} of {primaries} primaries")
        if self._replicas:
            found.append(f"{len(self._replicas)} of {nodes - primaries} replicas")
        words = f"{' and '.join(found)} fail"
        for name in ("machines", "zones"):
            if (asked := getattr(self._event, name)) is not None:
                some = ", ".join(map(str, asked)) if isinstance(asked, list) else f"{asked} in all"
                words += f" ({name}: {some})"
        return words

    def _report(self) -> None:
        """Facts, after the last step of the run."""
        found, fact = self._found, self._cluster.record.fact
        who = "primary" if self._primaries else "replica"
        self._when(f"first {who} suspected", found.suspected_s, "PFAIL")
        declared = sorted(self._declared.values())
        self._when("first node declared failed", declared[0], "FAIL")
        if len(declared) > 1:
            self._when("last node declared failed", declared[-1], "FAIL")
        if self._primaries:
            elected = list(self._elected.values())
            never = sum(
                math.isinf(after_s) and self._primaries[shard] not in self._back
                for shard, after_s in self._elected.items()
            )
            fact("shards that never get a primary again", never)
            self._when(
                "last replica elected",
                max(elected),
                "a shard has a primary again",
                never="of some shard none is, without a majority of primaries or a replica",
            )
            fact("elections", found.elections)
        self._when_served()
        if self._event.back_after_s is not None and self._back:
            last_s = max(self._back.values()) if len(self._back) == len(self._declared) else None
            fact("all nodes are back", last_s, "s", f"{len(self._back)} of {len(self._declared)}")
        self._table()

    def _when(self, name: str, after_s: float, note: str, *, never: str = "it never is") -> None:
        """A time of the run's clock, with that since the failure."""
        fact, at_s = self._cluster.record.fact, self._begun_s + after_s
        if math.isinf(after_s):
            fact(name, None, "s", never)
        elif at_s > self._cluster.env.now:
            fact(name, None, "s", f"{after_s:.3g} s after the failure, when the run has ended")
        else:
            fact(name, at_s, "s", f"{after_s:.3g} s after the failure: {note}")

    def _when_served(self) -> None:
        """When every slot is served, and no node refuses commands for another's sake."""
        times = []
        for shard, node in self._primaries.items():
            elected_s = self._elected[shard]
            back_s = self._back.get(node, math.inf) - self._begun_s
            times.append(elected_s if math.isfinite(elected_s) else back_s)
        # Of replicas, once nobody reads from them any more.
        times += [self._declared[node] for node in self._read_from]
        if not times:
            return
        self._when("clients are served again", max(times), "every slot has a node that answers")

    def _table(self) -> None:
        placed = self._cluster.placement()
        rows: list[list[Cell]] = []
        for node, declared_s in list(self._declared.items())[:MOST_ROWS]:
            shard = self._shard_of[node]
            was_primary = self._primaries.get(shard) == node
            elected_s = self._elected[shard] if was_primary else math.inf
            rows.append([
                *(node, "primary" if was_primary else "replica", shard),
                *(int(placed.machine[node]), int(placed.zone[node])),
                *(self._clock(declared_s), self._clock(elected_s)),
                self._back.get(node),
            ])  # fmt: skip
        some = len(self._declared)
        more = f" (the first {MOST_ROWS} of {some})" if some > MOST_ROWS else ""
        self._cluster.record.table(
            f"Nodes that failed at {self._begun_s:g} s{more}",
            [
                *(("node", ""), ("was", ""), ("shard", ""), ("machine", ""), ("zone", "")),
                *(("FAIL", "s"), ("replica elected", "s"), ("back", "s")),
            ],
            rows,
        )

    def _clock(self, after_s: float) -> float | None:
        return self._begun_s + after_s if math.isfinite(after_s) else None
