"""How long shards stay without a primary after many fail at once: detection, election, promotion.

The rules are those of cluster.c of Redis 6 to 8 and cluster_legacy.c of Valkey 7.2 to 9.1
(`clusterHandleReplicaFailover`, `clusterSendFailoverAuthIfNeeded`, `clusterProcessPacket`):

1. Nodes suspect those that failed and declare them failed (`detection.py`).
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
from .detection import CRON_S, detect

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
