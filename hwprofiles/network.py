"""What the network lets through: a steady load the baseline, a transfer its burst first.

An instance has its baseline bandwidth always. While it has credit it may send up to its burst
bandwidth, and what goes beyond the baseline is taken off the credit, a token bucket that fills
while less than the baseline is sent. One connection gets no more than the provider's limit of a
flow. Each direction counts by itself. What an instance has is in its host
(`hwprofiles/instances.py`).

| who asks                       | gets                                                       |
|--------------------------------|------------------------------------------------------------|
| a node under load (`stages.py`)| the baseline, and of it one connection no more than a flow |
| a large reply                  | one flow, full credit at its beginning                     |
| slots on their way             | one flow of each pair of nodes, full credit at a job's     |
| `cost`                         | the baseline in the busiest hour                           |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .speed import HostSpeed

_GBIT = 1e9


@dataclass(frozen=True)
class Bandwidth:
    """Of one direction of an interface, Gbit/s.

    Attributes
    ----------
    baseline_gbit_per_s
        What it has always.
    burst_gbit_per_s
        What it has while there is credit.
    credit_gbit
        What may be sent beyond the baseline when the bucket is full.
    flow_gbit_per_s
        What one connection gets.
    """

    baseline_gbit_per_s: float
    burst_gbit_per_s: float
    credit_gbit: float = 0.0
    flow_gbit_per_s: float = math.inf

    @property
    def burst_s(self) -> float:
        """How long the full burst lasts; infinite where it is the baseline."""
        beyond = self.burst_gbit_per_s - self.baseline_gbit_per_s
        return self.credit_gbit / beyond if beyond > 0.0 else math.inf

    def now_gbit_per_s(self, credit_gbit: float) -> float:
        """What it lets through with so much credit left."""
        return self.burst_gbit_per_s if credit_gbit > 0.0 else self.baseline_gbit_per_s


def constant(gbit_per_s: float) -> Bandwidth:
    """An interface without bursts, such as a measured one."""
    return Bandwidth(gbit_per_s, gbit_per_s)


def bandwidth_of(host: HostSpeed) -> Bandwidth:
    """Of a host's interface."""
    burst = max(host.network_gbit_per_s, host.network_burst_gbit_per_s)
    return Bandwidth(
        host.network_gbit_per_s, burst, host.network_credit_gbit, host.network_flow_gbit_per_s
    )


@dataclass(frozen=True)
class Path:
    """The interfaces that a transfer passes; none on one host."""

    ends: Sequence[Bandwidth]

    def steady_gbit_per_s(self, flows: int = 1) -> float:
        """Sustained rate of the given number of connections."""
        return self._allowed([0.0] * len(self.ends), flows)

    def first_gbit_per_s(self, flows: int = 1) -> float:
        """What they carry at first."""
        return self._allowed([end.credit_gbit for end in self.ends], flows)

    def transfer_s(self, size_bytes: float, *, flows: int = 1) -> float:
        """Time to transfer bytes over a number of connections, with full credit at first.

        At most one phase for each interface whose credit ends, and one after that.
        """
        left, passed_s = size_bytes * 8.0 / _GBIT, 0.0
        credits = [end.credit_gbit for end in self.ends]
        while True:
            rate = self._allowed(credits, flows)
            if math.isinf(rate):
                return passed_s
            beyond = [rate - end.baseline_gbit_per_s for end in self.ends]
            lasts = [
                credit / more
                for credit, more in zip(credits, beyond, strict=True)
                if credit > 0.0 and more > 0.0
            ]
            phase_s = min(lasts, default=math.inf)
            if left <= rate * phase_s:
                return passed_s + left / rate
            left -= rate * phase_s
            passed_s += phase_s
            # The one that ends first is empty, however the subtraction rounds.
            credits = [
                0.0
                if more > 0.0 and credit / more <= phase_s
                else min(end.credit_gbit, credit - more * phase_s)
                for end, credit, more in zip(self.ends, credits, beyond, strict=True)
            ]

    def mean_bytes_per_s(self, size_bytes: float, *, flows: int = 1) -> float:
        """Mean rate of a transfer of the given number of bytes."""
        if size_bytes <= 0.0:
            return self.first_gbit_per_s(flows) * _GBIT / 8.0
        taken_s = self.transfer_s(size_bytes, flows=flows)
        return size_bytes / taken_s if taken_s > 0.0 else math.inf

    def _allowed(self, credits: Sequence[float], flows: int) -> float:
        """Gbit/s that all interfaces let through, with so much credit left at each."""
        rates = (
            min(end.now_gbit_per_s(credit), flows * end.flow_gbit_per_s)
            for end, credit in zip(self.ends, credits, strict=True)
        )
        return min(rates, default=math.inf)


def between(*hosts: HostSpeed) -> Path:
    """The path between hosts."""
    return Path([bandwidth_of(host) for host in hosts])
