"""When nodes that have failed are suspected (PFAIL) and declared failed (FAIL).

The rules are those of Redis 6 to 8 and Valkey 7.2 to 9.1 (cluster.c or cluster_legacy.c:
`clusterCron`, `clusterSendPing`, `clusterProcessGossipSection`, `markNodeAsFailingIfNeeded`):

1. Ten times a second a node looks at all others. Once a second it pings the one of five random
   nodes whose last pong it knows of is the oldest; and it pings every node whose last pong is older
   than half the node timeout.
2. Pings and pongs carry what their sender knows of a tenth of all nodes, three at least, chosen at
   random: the whole second of the last pong. A receiver that has no ping under way takes it over if
   it is newer. In small clusters this saves most pings, and it decides when a node that has failed
   is pinged next.
3. A ping that has waited for the node timeout makes a node suspected (PFAIL) by its sender. That a
   connection is refused changes nothing.
4. Pings and pongs also carry all nodes that their sender suspects. A report of a primary counts for
   two node timeouts. A node that suspects another itself, and receives a report when a majority of
   all primaries with slots suspects it (itself, if it is one, included), declares FAIL to all.

All pairs of nodes are simulated, from two node timeouts before the failure on. More than
`MOST_NODES` are stood for by so many, in the same proportions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .failover import FailoverRules

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
