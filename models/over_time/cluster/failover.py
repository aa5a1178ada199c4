"""How long shards stay without a primary after many fail at once: detection, election, promotion.

The rules are those of cluster.c of Redis 6 to 8 and cluster_legacy.c of Valkey 7.2 to 9.1
(`clusterHandleReplicaFailover`, `clusterSendFailoverAuthIfNeeded`, `clusterProcessPacket`):

1. Nodes suspect those that failed and declare them failed (below).
2. The replica of a failed primary waits a fixed and a random time, 500 ms each at most, and a
   second for each replica with more data. From Valkey 8.1 on (pull request 1018) it waits 500 ms
   more for each failed primary whose shard comes before its own (`clusterGetFailedPrimaryRank`);
   the rank is looked at again 10 times a second, so each shard that is back brings the others
   forward. From 9.1 on these times are a thirtieth of the node timeout, 500 ms at most (2449), and
   a replica that is first by both ranks does not wait at all (2227).
3. It then raises the epoch and asks all primaries for their vote. A primary votes once an epoch,
   and not for an epoch older than one it knows; up to Redis 8 and Valkey 8.0 it does not vote twice
   about one shard within two node timeouts (1356 took that away). Votes of a majority of all
   primaries, dead ones included, make it primary; it tells all nodes.
4. From Valkey 8.1 on a replica that still counts votes when another wins with the same or a later
   epoch starts again at 2 (1009). Without that, an attempt is repeated after four node timeouts, at
   least 4 s.

Every node writes nodes.conf to disk when it votes and when a shard changes hands; while it does so
it answers nothing. With this and the one vote an epoch, many failovers at a time slow each other
down: with half of the primaries gone every single vote is needed.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from ...scenario.versions import version_numbers

# --- when nodes that have failed are suspected (PFAIL) and declared failed (FAIL) -----------------

# The rules are those of Redis 6 to 8 and Valkey 7.2 to 9.1 (cluster.c or cluster_legacy.c:
# `clusterCron`, `clusterSendPing`, `clusterProcessGossipSection`, `markNodeAsFailingIfNeeded`):
#
# 1. Ten times a second a node looks at all others. Once a second it pings the one of five random
#    nodes whose last pong it knows of is the oldest; and it pings every node whose last pong is
#    older than half the node timeout.
# 2. Pings and pongs carry what their sender knows of a tenth of all nodes, three at least, chosen
#    at random: the whole second of the last pong. A receiver that has no ping under way takes it
#    over if it is newer. In small clusters this saves most pings, and it decides when a node that
#    has failed is pinged next.
# 3. A ping that has waited for the node timeout makes a node suspected (PFAIL) by its sender. That
#    a connection is refused changes nothing.
# 4. Pings and pongs also carry all nodes that their sender suspects. A report of a primary counts
#    for two node timeouts. A node that suspects another itself, and receives a report when a
#    majority of all primaries with slots suspects it (itself, if it is one, included), declares
#    FAIL to all.
#
# All pairs of nodes are simulated, from two node timeouts before the failure on. More than
# `MOST_NODES` are stood for by so many, in the same proportions.


CRON_S = 0.1
"""How often a node looks at the others (`clusterCron`)."""

MOST_NODES = 100
"""Nodes that are simulated pair by pair."""

_RESOLUTION = 150.0
"""Looks in a node timeout that are simulated at most: of longer ones than 15 s, not every look."""

_WARM_UP = 2.0
"""Node timeouts before the failure, after which pings no longer know how they began."""

_ASKED_AT_RANDOM = 5
_LEAST_GOSSIP = 3
_GOSSIP_SHARE = 10
_REPORT_TIMEOUTS = 2.0
_GIVEN_UP_TIMEOUTS = 8.0


@dataclass(frozen=True)
class Detection:
    """When failures are noticed, in seconds after them; infinite where they never are.

    Attributes
    ----------
    suspected_s, failed_s
        (failed,) when the first node suspects each, and when all know that it is declared failed;
        primaries first, then replicas.
    minority_s
        When half of the nodes suspect so many primaries that no majority is left, from when on
        they refuse all commands (`clusterUpdateState`).
    """

    suspected_s: NDArray[np.float64]
    failed_s: NDArray[np.float64]
    minority_s: float


def detect(
    rules: FailoverRules,
    *,
    primaries: int,
    replicas: int,
    away: int,
    rng: np.random.Generator,
) -> Detection:
    """Let nodes fail and wait until all of them are declared failed, or can't be.

    Parameters
    ----------
    primaries, replicas
        How many fail.
    away
        Primaries with slots that failed earlier and have no successor: they count for the majority.
    """
    # What fails comes first: primaries, replicas; then those that are left.
    groups = np.array([
        primaries,
        replicas,
        rules.primaries - away - primaries,
        max(0, rules.primaries * rules.replicas - replicas),
    ])  # fmt: skip
    here = groups
    if groups.sum() > MOST_NODES:
        here = np.where(groups > 0, np.maximum(1, groups * MOST_NODES // groups.sum()), 0)
    left, quorum = int(groups[2]), rules.quorum
    if left >= quorum:
        quorum = max(1, min(int(here[2]), round(quorum * int(here[2]) / left)))
    else:
        quorum = int(here[2]) + 1
    gossip = _Gossip(rules.node_timeout_s, here, quorum, rng)
    gossip.run()
    suspected_s, failed_s = gossip.noticed_s()
    # The more nodes there are, the sooner after the failure the first of them pings.
    more = max(1.0, float(groups.sum() / here.sum()))
    suspected_s = rules.node_timeout_s + (suspected_s - rules.node_timeout_s) / more
    # Each node that failed is as one of those that were simulated.
    stands_for = np.concatenate([
        np.arange(primaries) % max(1, here[0]),
        here[0] + np.arange(replicas) % max(1, here[1]),
    ])  # fmt: skip
    enough = rules.primaries - away - rules.quorum + 1
    minority_s = np.inf
    if 0 < enough <= primaries:  # else there is a majority still, or there was none before
        minority_s = gossip.minority_s(max(1, round(enough * int(here[0]) / primaries)))
    return Detection(
        suspected_s[stands_for], failed_s[stands_for] + rules.one_way_s, float(minority_s)
    )


class _Gossip:
    """What each node knows of each other; rows are those who know, columns of whom."""

    def __init__(
        self,
        timeout_s: float,
        groups: NDArray[np.int64],
        quorum: int,
        rng: np.random.Generator,
    ) -> None:
        self._timeout_s, self._quorum, self._rng = timeout_s, quorum, rng
        self._count = count = int(groups.sum())
        self._failing = int(groups[:2].sum())
        self._failing_primaries = int(groups[0])
        kinds = np.repeat(np.arange(4), groups)
        self._votes = kinds == 2
        self._tick_s = max(CRON_S, timeout_s / _RESOLUTION)
        self._phase_s = rng.uniform(0.0, self._tick_s, count)
        self._turns = max(1, round(1.0 / self._tick_s))
        self._turn = rng.integers(0, self._turns, count)
        self._carried = min(max(_LEAST_GOSSIP, count // _GOSSIP_SHARE), max(0, count - 2))
        self._pong_s = -rng.uniform(0.0, timeout_s / 2.0, (count, count))
        np.fill_diagonal(self._pong_s, np.inf)
        self._ping_s = np.full((count, count), np.inf)
        """When the ping was sent that waits for a pong."""
        self._suspected_s = np.full((count, self._failing), np.inf)
        self._reported_s = np.full((count, self._failing, count), -np.inf)
        """By receiver, failed node and primary that reported it."""
        self._failed_s = np.full(self._failing, np.inf)
        self._death_s = _WARM_UP * timeout_s + rng.uniform(0.0, 1.0)

    def run(self) -> None:
        """Until every failure is declared, or has been waited for long enough."""
        hopeless = np.count_nonzero(self._votes) < self._quorum
        ticks = round((self._death_s + _GIVEN_UP_TIMEOUTS * self._timeout_s) / self._tick_s)
        for number in range(ticks):
            self._advance(number)
            if np.isfinite(self._failed_s).all():
                return
            if hopeless and np.isfinite(self._suspected_s[self._failing :]).all():
                return

    def noticed_s(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(failed,) first suspicion and declaration, in seconds after the failure."""
        seen = self._suspected_s[self._failing :]
        first = seen.min(axis=0, initial=np.inf)
        return first - self._death_s, self._failed_s - self._death_s

    def minority_s(self, primaries: int) -> float:
        """When half of the nodes that are left suspect so many primaries."""
        seen = np.sort(self._suspected_s[self._failing :, : self._failing_primaries], axis=1)
        if not seen.size:
            return np.inf
        return float(np.median(seen[:, primaries - 1])) - self._death_s

    def _advance(self, number: int) -> None:
        now_s = number * self._tick_s + self._phase_s
        up = np.ones(self._count, dtype=bool)
        up[: self._failing] = now_s[: self._failing] < self._death_s
        known = np.isfinite(self._suspected_s)  # what the next pings carry
        senders, receivers = np.nonzero(self._pings(number, now_s, up))
        answered = up[receivers]
        unanswered = senders[~answered], receivers[~answered]
        self._ping_s[unanswered] = now_s[unanswered[0]]
        senders, receivers = senders[answered], receivers[answered]
        if len(senders):
            pairs = np.concatenate([senders, receivers]), np.concatenate([receivers, senders])
            self._carry_pongs(*pairs, known, number * self._tick_s)
            self._pong_s[senders, receivers] = now_s[senders]
            if known.any():
                self._carry_reports(*pairs, known, number * self._tick_s)
        waited_s = now_s[:, None] - self._ping_s[:, : self._failing]
        late = (waited_s > self._timeout_s) & np.isinf(self._suspected_s) & up[:, None]
        self._suspected_s = np.where(late, now_s[:, None], self._suspected_s)

    def _pings(
        self, number: int, now_s: NDArray[np.float64], up: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """(count, count) who pings whom at this look."""
        idle = np.isinf(self._ping_s)
        np.fill_diagonal(idle, False)
        pings = (now_s[:, None] - self._pong_s > self._timeout_s / 2.0) & idle
        for _ in range(max(1, round(self._tick_s))):
            rows = np.flatnonzero((self._turn + number) % self._turns == 0)
            asked = self._rng.integers(0, self._count, (len(rows), _ASKED_AT_RANDOM))
            pong_s = np.where(
                idle[rows[:, None], asked], self._pong_s[rows[:, None], asked], np.inf
            )
            oldest = pong_s.argmin(axis=1)
            each = np.arange(len(rows))
            found = np.isfinite(pong_s[each, oldest])
            pings[rows[found], asked[each, oldest][found]] = True
        return pings & up[:, None]

    def _carry_pongs(
        self,
        senders: NDArray[np.int64],
        receivers: NDArray[np.int64],
        known: NDArray[np.bool_],
        time_s: float,
    ) -> None:
        """Messages tell their receivers of pongs that their senders know of."""
        if not self._carried:
            return
        each = np.arange(len(senders))
        order = self._rng.random((len(senders), self._count))
        order[each, senders] = order[each, receivers] = np.inf
        order[:, : self._failing][known[senders]] = np.inf
        told = np.argpartition(order, self._carried - 1, axis=1)[:, : self._carried]
        rows = np.repeat(receivers, self._carried).reshape(told.shape)
        # Nobody listens who waits for a pong itself, or has heard that the node fails.
        takes = np.isfinite(np.take_along_axis(order, told, axis=1))
        takes &= np.isinf(self._ping_s[rows, told])
        if known.any():
            reported = np.zeros((self._count, self._count), dtype=bool)
            reported[:, : self._failing] = self._reports(time_s).any(axis=2)
            takes &= ~reported[rows, told]
        pong_s = np.floor(np.take_along_axis(self._pong_s[senders], told, axis=1))
        np.maximum.at(self._pong_s, (rows[takes], told[takes]), pong_s[takes])

    def _reports(self, time_s: float) -> NDArray[np.bool_]:
        """(count, failed, count) reports that still count."""
        return np.asarray(self._reported_s > time_s - _REPORT_TIMEOUTS * self._timeout_s)

    def _carry_reports(
        self,
        senders: NDArray[np.int64],
        receivers: NDArray[np.int64],
        known: NDArray[np.bool_],
        time_s: float,
    ) -> None:
        """Messages of primaries tell whom they suspect; who hears of a majority declares FAIL."""
        message, node = np.nonzero(known[senders] & self._votes[senders][:, None])
        rows = receivers[message]
        self._reported_s[rows, node, senders[message]] = time_s
        counts = self._reports(time_s)[rows, node].sum(axis=1) + self._votes[rows]
        declared = node[(counts >= self._quorum) & known[rows, node]]
        self._failed_s[declared] = np.minimum(self._failed_s[declared], time_s + self._tick_s / 2)


_DELAY_S = 0.5
"""Fixed part of the wait before an election, most of the random part, and a rank's."""
_DELAY_TIMEOUTS = 1.0 / 30.0
_RETRY_TIMEOUTS, _LEAST_RETRY_S = 4.0, 4.0
_VOTE_TIMEOUTS = 2.0
_SLICE_S = 0.002
"""Duration of the pieces in which the messages of one broadcast are handed over."""
_LONGEST_S = 1800.0


@dataclass(frozen=True, kw_only=True)
class FailoverRules:
    """A cluster whose primaries fail.

    Attributes
    ----------
    primaries, replicas
        Primaries with slots, and replicas of each, all alike up to date.
    node_timeout_s
        `cluster-node-timeout`.
    ranked
        Whether failed primaries have a rank, a replica that lost starts again at once, and
        primaries vote again about a shard (Valkey 8.1 on).
    prompt
        Whether the first replica by all ranks doesn't wait, and others a thirtieth of the node
        timeout (Valkey 9.1 on).
    one_way_s
        A message of the cluster bus.
    send_s, handle_s
        Main-thread time per message, sending and receiving (assumed).
    save_s
        Writing nodes.conf with fsync: a millisecond for it and 3 µs a node (assumed, half to the
        double: it is a line of text for each node).
    """

    primaries: int
    replicas: int = 1
    node_timeout_s: float = 15.0
    ranked: bool = True
    prompt: bool = False
    one_way_s: float = 0.00025
    send_s: float = 5e-6
    handle_s: float = 30e-6
    save_s: float | None = None

    @property
    def quorum(self) -> int:
        """Votes, and reports of failure, that are a majority."""
        return self.primaries // 2 + 1

    @property
    def nodes(self) -> int:
        """All nodes."""
        return self.primaries * (1 + self.replicas)

    @property
    def delay_s(self) -> float:
        """Fixed part of the wait before an election; as much at random, and for each rank."""
        return min(_DELAY_S, self.node_timeout_s * _DELAY_TIMEOUTS) if self.prompt else _DELAY_S

    @property
    def retry_s(self) -> float:
        """Until an election that failed is repeated."""
        return max(_LEAST_RETRY_S, _RETRY_TIMEOUTS * self.node_timeout_s)

    @property
    def saving_s(self) -> float:
        """Time of one nodes.conf."""
        return 1e-3 + 3e-6 * self.nodes if self.save_s is None else self.save_s


@dataclass(frozen=True)
class Failover:
    """What happened, in seconds from the failure; infinite where it never did.

    Attributes
    ----------
    suspected_s
        When the first node suspected one of those that failed (PFAIL).
    failed_s, recovered_s
        (failed primaries,) when it was declared failed (FAIL), and when its replica was primary.
    replicas_failed_s
        (failed replicas,) when it was declared failed.
    minority_s
        From when on all nodes refuse commands, as no majority of primaries is left.
    elections
        How often a replica asked for votes.
    messages
        Of requests, votes and announcements, all nodes together.
    """

    suspected_s: float
    failed_s: NDArray[np.float64]
    recovered_s: NDArray[np.float64]
    replicas_failed_s: NDArray[np.float64]
    minority_s: float
    elections: int
    messages: int


def rules_for(engine: str, version: str, **how: Any) -> FailoverRules:
    """The rules of a version of Redis or Valkey; `how` has the other fields of `FailoverRules`."""
    numbers = version_numbers(version)[:2]
    own = {
        "ranked": engine == "valkey" and numbers >= [8, 1],
        "prompt": engine == "valkey" and numbers >= [9, 1],
    }
    return FailoverRules(**{**own, **how})


def fail_over(
    rules: FailoverRules,
    failed: int,
    *,
    replicas: int = 0,
    away: int = 0,
    electable: Sequence[int] | None = None,
    seed: int = 1,
) -> Failover:
    """Kill nodes at once and wait until their shards are back.

    Which nodes these are makes no difference, but for the replicas that are left to each primary.

    Parameters
    ----------
    failed, replicas
        How many primaries and replicas fail.
    away
        Primaries that failed earlier and have no successor.
    electable
        (failed primaries,) replicas that can take over; all of each without it.

    Raises
    ------
    ValueError
        More fail than there are.
    """
    if not 0 <= failed <= rules.primaries - away:
        raise ValueError("as many failed primaries as there are, at most")
    rng = np.random.default_rng([seed, failed, rules.primaries, replicas])
    if failed + replicas == 0:
        return Failover(np.inf, np.zeros(0), np.zeros(0), np.zeros(0), np.inf, 0, 0)
    found = detect(rules, primaries=failed, replicas=replicas, away=away, rng=rng)
    failed_s = found.failed_s[:failed]
    candidates = np.full(failed, rules.replicas) if electable is None else np.array(electable)
    election = _Elections(rules, failed_s, candidates.astype(np.int64), away, rng)
    recovered_s = election.run() if failed else np.zeros(0)
    return Failover(
        suspected_s=float(found.suspected_s.min()),
        failed_s=failed_s,
        recovered_s=recovered_s,
        replicas_failed_s=found.failed_s[failed:],
        minority_s=found.minority_s,
        elections=election.count,
        messages=election.messages,
    )


def hand_over_s(rules: FailoverRules, *, seed: int = 1) -> float:
    """How long a primary keeps its clients waiting that hands over to its replica.

    CLUSTER FAILOVER (cluster_legacy.c, `clusterHandleManualFailover`): the primary pauses its
    clients and tells the replica how far its stream goes; the replica looks ten times a second
    whether it has all of it, asks for votes without a delay, and tells everybody. Two trips, that
    look, two trips and a vote, then the news: its own nodes.conf and a trip.
    """
    look_s = float(np.random.default_rng([seed, rules.nodes]).uniform(0, CRON_S))
    vote_s = rules.handle_s + rules.saving_s
    return look_s + 5 * rules.one_way_s + vote_s + rules.saving_s + rules.handle_s


class _Elections:
    """Candidates, voters, and what each knows; rows of arrays are shards."""

    def __init__(
        self,
        rules: FailoverRules,
        failed_s: NDArray[np.float64],
        candidates: NDArray[np.int64],
        away: int,
        rng: np.random.Generator,
    ) -> None:
        self._rules, self._rng, self._candidates = rules, rng, candidates
        self.env = simpy.Environment()
        failed, shards = len(failed_s), rules.primaries
        # The failed ones come first, those that failed earlier last; what shard ids say of the
        # order is chance.
        self._order = rng.permutation(failed)
        self._failed_s = failed_s
        self._is_failed = np.zeros(failed, dtype=bool)
        self._votes_now = np.arange(shards) >= failed
        self._votes_now[shards - away :] = False
        self._epoch = np.zeros(shards, dtype=np.int64)
        self._voted = np.zeros(shards, dtype=np.int64)
        self._free_s = np.zeros(shards)
        self._voted_about_s = np.full((shards if not rules.ranked else 0, failed), -np.inf)
        self._asked_epoch = np.zeros(failed, dtype=np.int64)
        self._reset = [self.env.event() for _ in range(failed)]
        self.recovered_s = np.full(failed, np.inf)
        self.count = self.messages = 0

    def run(self) -> NDArray[np.float64]:
        """Until all are back, or nothing can happen any more."""
        for shard in np.flatnonzero(np.isfinite(self._failed_s) & (self._candidates > 0)):
            self.env.process(self._candidate(int(shard)))
        self.env.run(until=_LONGEST_S)
        return self.recovered_s

    def _rank(self, shard: int) -> int:
        if not self._rules.ranked:
            return 0
        return int(np.sum(self._is_failed & (self._order < self._order[shard])))

    def _candidate(self, shard: int) -> Generator[simpy.Event, Any, None]:
        rules, env = self._rules, self.env
        yield env.timeout(self._failed_s[shard])
        self._is_failed[shard] = True
        if not rules.prompt:
            yield env.timeout(self._rng.uniform(0, CRON_S))
        while True:
            yield from self._wait(shard)
            self._reset[shard] = env.event()
            lost = self._reset[shard]
            won = env.process(self._ask(shard))
            again = env.timeout(rules.retry_s)
            yield env.any_of([won, lost]) | again if rules.ranked else won | again
            if won.triggered and won.value:
                self._promote(shard)
                return

    def _wait(self, shard: int) -> Generator[simpy.Event, Any, None]:
        """The time until the first replica of a shard asks for votes."""
        rules, env, rank = self._rules, self.env, self._rank(shard)
        if rules.prompt and rank == 0:
            return
        # Replicas that have as much data wait for different times; node ids decide from 8.0 on.
        same = 1 if rules.ranked else int(self._candidates[shard])
        start_s = env.now + rules.delay_s * (1.0 + self._rng.random(same).min() + rank)
        while env.now < start_s:
            yield env.timeout(min(CRON_S, rules.delay_s / 5.0))
            now_rank = self._rank(shard)
            start_s += (now_rank - rank) * rules.delay_s
            rank = now_rank
            if rules.prompt and rank == 0:
                return

    def _ask(self, shard: int) -> Generator[simpy.Event, Any, bool]:
        """Ask for votes; returns once a majority has come. Never, if it doesn't."""
        rules, env = self._rules, self.env
        self.count += 1
        epoch = int(self._epoch[shard]) + 1
        self._epoch[shard] = self._asked_epoch[shard] = epoch
        lost = self._reset[shard]
        answers: list[NDArray[np.float64]] = []
        for voters, arrived in self._broadcast():
            yield env.timeout(max(0.0, arrived - env.now))
            late = epoch < self._epoch[voters]
            grants = self._votes_now[voters] & ~late & (self._voted[voters] < epoch)
            if not rules.ranked:
                since_s = env.now - self._voted_about_s[voters, shard]
                grants &= since_s >= _VOTE_TIMEOUTS * rules.node_timeout_s
                self._voted_about_s[voters[grants], shard] = env.now
            self._epoch[voters] = np.maximum(self._epoch[voters], epoch)
            self._voted[voters[grants]] = epoch
            spent = rules.handle_s + np.where(grants, rules.saving_s, 0.0)
            self._free_s[voters] = np.maximum(self._free_s[voters], env.now) + spent
            answers.append(self._free_s[voters[grants]] + rules.one_way_s)
        came = np.sort(np.concatenate(answers))
        self.messages += len(came)
        if len(came) < rules.quorum:
            yield env.event()  # nothing more will come
        yield env.timeout(max(0.0, float(came[rules.quorum - 1]) - env.now))
        return not lost.triggered

    def _broadcast(self) -> list[tuple[NDArray[np.int64], float]]:
        """Who gets a message when: shards in random order, in slices of time."""
        rules = self._rules
        self.messages += rules.nodes - 1
        shards = self._rng.permutation(rules.primaries)
        lasts_s = rules.send_s * rules.nodes
        slices = max(1, int(np.ceil(lasts_s / _SLICE_S)))
        begin = self.env.now + rules.one_way_s
        parts = np.array_split(shards, slices)
        return [
            (part.astype(np.int64), begin + lasts_s * (number + 1) / slices)
            for number, part in enumerate(parts)
        ]

    def _promote(self, shard: int) -> None:
        self.recovered_s[shard] = self.env.now
        self._votes_now[shard] = True
        self._free_s[shard] = self.env.now + self._rules.saving_s
        self.env.process(self._announce(shard))

    def _announce(self, shard: int) -> Generator[simpy.Event, Any, None]:
        """All nodes learn of the new primary, and replicas that lost to it start again."""
        rules, env = self._rules, self.env
        epoch = int(self._asked_epoch[shard])
        yield env.timeout(rules.saving_s)
        parts = self._broadcast()
        for number, (nodes, arrived) in enumerate(parts):
            yield env.timeout(max(0.0, arrived - env.now))
            if number == len(parts) // 2:
                self._is_failed[shard] = False
            self._epoch[nodes] = np.maximum(self._epoch[nodes], epoch)
            busy = rules.handle_s + rules.saving_s
            self._free_s[nodes] = np.maximum(self._free_s[nodes], env.now) + busy
            for other in nodes[nodes < len(self.recovered_s)]:
                waiting = self._asked_epoch[other] > 0 and np.isinf(self.recovered_s[other])
                reset = self._reset[other]
                if waiting and epoch >= self._asked_epoch[other] and not reset.triggered:
                    reset.succeed()
