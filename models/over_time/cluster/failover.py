"""How long shards stay without a primary after many fail at once: detection, election, promotion.

The rules are those of cluster_legacy.c, Valkey 8.1 and 9.0:

1. Every node pings every other once its last pong is older than half the node timeout, and
   suspects a node (PFAIL) when a ping has waited for the whole timeout.
2. Pings and pongs carry the nodes that their sender suspects. A node that suspects another and
   hears the same from a majority of all primaries that own slots, dead ones included, declares
   FAIL to all nodes.
3. The replica of a failed primary waits 500 ms, a random time up to 500 ms, and 500 ms for each
   failed primary whose shard comes before its own (`clusterGetFailedPrimaryRank`; before Valkey 8.1
   there is no such rank). The rank is looked at again 10 times a second, so each shard that is
   back brings the others 500 ms forward.
4. It then raises the epoch and asks all primaries for their vote. A primary votes once an epoch,
   and not for an epoch older than one it knows. Votes of a majority of all primaries, dead ones
   included, make it primary; it tells all nodes.
5. A replica that still counts votes when another wins with the same or a later epoch starts again
   at 3.
   Without that, an attempt is repeated after four node timeouts.

Every node writes nodes.conf to disk when it votes and when a shard changes hands; while it does so
it answers nothing. With this and the one vote an epoch, many failovers at a time slow each other
down: with half of the primaries gone every single vote is needed.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

_CRON_S = 0.1
_FIXED_S = 0.5
_RANK_S = 0.5
_SLICE_S = 0.002
"""Duration of the pieces in which the messages of one broadcast are handed over."""
_OBSERVERS = 192
"""Nodes of which each is asked when it knows of a failure; the first of them counts."""
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
        Whether failed primaries have a rank (Valkey 8.1 on).
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
    def saving_s(self) -> float:
        """Time of one nodes.conf."""
        return 1e-3 + 3e-6 * self.nodes if self.save_s is None else self.save_s


@dataclass(frozen=True)
class Failover:
    """What happened, in seconds from the failure; infinite where it never did.

    Attributes
    ----------
    suspected_s
        When the first node thought the first primary failing.
    failed_s, recovered_s
        (failed primaries,) when it was declared failed, and when its replica was primary.
    elections
        How often a replica asked for votes.
    messages
        Of requests, votes and announcements, all nodes together.
    """

    suspected_s: float
    failed_s: NDArray[np.float64]
    recovered_s: NDArray[np.float64]
    elections: int
    messages: int


def fail_over(rules: FailoverRules, failed: int, *, seed: int = 1) -> Failover:
    """Kill a number of primaries at once, drawn at random, and wait until their shards are back.

    Raises
    ------
    ValueError
        More fail than there are.
    """
    if not 0 <= failed <= rules.primaries:
        raise ValueError("as many failed primaries as there are, at most")
    rng = np.random.default_rng([seed, failed, rules.primaries])
    if failed == 0:
        return Failover(np.inf, np.zeros(0), np.zeros(0), 0, 0)
    suspected_s, failed_s = _detect(rules, failed, rng)
    election = _Elections(rules, failed_s, rng)
    recovered_s = election.run()
    return Failover(suspected_s, failed_s, recovered_s, election.count, election.messages)


def hand_over_s(rules: FailoverRules, *, seed: int = 1) -> float:
    """How long a primary keeps its clients waiting that hands over to its replica.

    CLUSTER FAILOVER (cluster_legacy.c, `clusterHandleManualFailover`): the primary pauses its
    clients and tells the replica how far its stream goes; the replica looks ten times a second
    whether it has all of it, asks for votes without a delay, and tells everybody. Two trips, that
    look, two trips and a vote, then the news: its own nodes.conf and a trip.
    """
    look_s = float(np.random.default_rng([seed, rules.nodes]).uniform(0, _CRON_S))
    vote_s = rules.handle_s + rules.saving_s
    return look_s + 5 * rules.one_way_s + vote_s + rules.saving_s + rules.handle_s


def _detect(
    rules: FailoverRules, failed: int, rng: np.random.Generator
) -> tuple[float, NDArray[np.float64]]:
    """First suspicion, and when each failed primary is declared failed.

    A pair of nodes exchanges two pings every half timeout, at random times of their own.
    """
    period = rules.node_timeout_s / 2.0
    alive = rules.primaries - failed
    watchers = alive + rules.primaries * rules.replicas
    if alive < rules.quorum:
        suspects = rng.uniform(0, period, (max(watchers, 1), failed))
        return float(rules.node_timeout_s + suspects.min()), np.full(failed, np.inf)
    observers = min(watchers, _OBSERVERS)
    first = rng.uniform(0, period, (observers, alive))
    second = rng.uniform(0, period, (observers, alive))
    declared = np.empty(failed)
    suspected = np.inf
    for number in range(failed):
        # A watcher's last pong is as old as chance has it; then the ping waits for the timeout.
        thinks = rules.node_timeout_s + rng.uniform(0, period, alive)
        own = rules.node_timeout_s + rng.uniform(0, period, observers)
        suspected = min(suspected, float(thinks.min()), float(own.min()))
        waits = np.minimum((first - thinks) % period, (second - thinks) % period)
        heard = np.partition(thinks + waits, rules.quorum - 1, axis=1)[:, rules.quorum - 1]
        declared[number] = np.maximum(heard, own).min() + rng.uniform(0, _CRON_S)
    return suspected, declared + rules.one_way_s


class _Elections:
    """Candidates, voters, and what each knows; rows of arrays are shards."""

    def __init__(
        self, rules: FailoverRules, failed_s: NDArray[np.float64], rng: np.random.Generator
    ) -> None:
        self._rules, self._rng = rules, rng
        self.env = simpy.Environment()
        failed, shards = len(failed_s), rules.primaries
        # The failed ones come first; what their shard ids say of the order is chance.
        self._order = rng.permutation(failed)
        self._failed_s = failed_s
        self._is_failed = np.zeros(failed, dtype=bool)
        self._votes_now = np.arange(shards) >= failed
        self._epoch = np.zeros(shards, dtype=np.int64)
        self._voted = np.zeros(shards, dtype=np.int64)
        self._free_s = np.zeros(shards)
        self._asked_epoch = np.zeros(failed, dtype=np.int64)
        self._reset = [self.env.event() for _ in range(failed)]
        self.recovered_s = np.full(failed, np.inf)
        self.count = self.messages = 0

    def run(self) -> NDArray[np.float64]:
        """Until all are back, or nothing can happen any more."""
        for shard in np.flatnonzero(np.isfinite(self._failed_s)):
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
        yield env.timeout(self._rng.uniform(0, _CRON_S))
        while True:
            rank = self._rank(shard)
            start_s = env.now + _FIXED_S + self._rng.uniform(0, _FIXED_S) + rank * _RANK_S
            while env.now < start_s:
                yield env.timeout(_CRON_S)
                now_rank = self._rank(shard)
                start_s += (now_rank - rank) * _RANK_S
                rank = now_rank
            self._reset[shard] = env.event()
            lost = self._reset[shard]
            won = env.process(self._ask(shard))
            again = env.timeout(4 * rules.node_timeout_s)
            yield env.any_of([won, lost]) | again
            if won.triggered and won.value:
                self._promote(shard)
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
