"""Primaries fail, and their replicas take over."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from forecache.hwprofiles.files import FieldError

from ..failover import FailoverRules, fail_over
from ..slots.slot_map import SlotMap
from ..slots.slots import LOST
from .base import Event, EventProcess

if TYPE_CHECKING:
    from ..cluster import Cluster


class Fail(Event):
    """How many primaries fail at once; those of the first shards do."""

    event: Literal["fail"]
    """Its name."""
    primaries: int = Field(default=1, ge=1, le=2000)
    """How many."""
    silent: bool = False
    """Whether their hosts are gone with them, so that clients wait for their timeout; otherwise
    they are refused at once."""
    node_timeout_s: float = Field(default=15.0, ge=0.5, le=600)
    """`cluster-node-timeout`."""
    ranked: bool = True
    """Whether shards whose primary failed take turns, as from Valkey 8.1 on."""

    def happen(self, cluster: Cluster) -> EventProcess:
        """Fail, be noticed, be replaced."""
        slots = SlotMap.of(cluster)
        shards = slots.shards
        if self.primaries > len(shards):
            raise FieldError(
                "primaries",
                found=self.primaries,
                valid=f"at most the {len(shards)} primaries that there are",
            )
        failed = shards[: self.primaries]
        for shard in failed:
            cluster.nodes.set_down(int(slots.primary[shard] or 0), silent=self.silent)
        cluster.record.mark(f"{self.primaries} of {len(shards)} primaries fail")
        rules = FailoverRules(
            primaries=len(shards),
            replicas=cluster.scenario.cluster.replicas,
            node_timeout_s=self.node_timeout_s,
            ranked=self.ranked,
        )
        found = fail_over(rules, self.primaries, seed=cluster.seed)
        begun_s = cluster.env.now
        back = sorted(zip(found.recovered_s.tolist(), failed, strict=True))
        lost = 0
        for after_s, shard in back:
            replicas = slots.replicas(shard)
            if math.isinf(after_s) or not replicas:
                lost += 1
                slots.owners[(slots.owners == shard) & (not replicas)] = LOST
                continue
            yield cluster.env.timeout(max(0.0, begun_s + after_s - cluster.env.now))
            old = slots.primary[shard]
            slots.primary[shard] = replicas[0]
            if old is not None:
                cluster.nodes.traffic[old] = 0.0
            slots.spread()
            if self.primaries <= 10:
                cluster.record.mark(f"shard {shard} has a primary again")
        times = [after_s for after_s, _ in back if math.isfinite(after_s)]
        cluster.record.fact("shards that never get a primary again", lost)
        # By the clock of the run, as everything else that a run says happened at some time.
        suspected_s = found.suspected_s
        cluster.record.fact(
            "first primary suspected",
            begun_s + suspected_s,
            "s",
            f"{suspected_s:.3g} s after the failure",
        )
        healed = bool(times) and not lost
        cluster.record.fact(
            "last shard with a primary again",
            begun_s + max(times) if healed else None,
            "s",
            f"{max(times):.3g} s after the failure"
            if healed
            else "no majority of primaries is left, or no replica",
        )
        cluster.record.fact("elections", found.elections)
