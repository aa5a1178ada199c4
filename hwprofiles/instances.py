"""Cloud instances: how much of a host they are, and what they cost."""

from functools import lru_cache
from pathlib import Path

from pydantic import Field, model_validator

from .files import parse, read_yaml
from .quantity import Quantity, Source
from .record import Record as _Group

INSTANCE_FOLDER = Path(__file__).parent / "instances"

PACKETS_PER_VCPU = (5e6 / 36, 625_000.0)
"""Packets a second and vCPU that an instance is believed to be allowed, both directions together.
AWS publishes no number. An AWS engineer expects 2.5 million on c5n.4xlarge and 5 million on
c5n.9xlarge without saying in how many directions, and a user found 6 million of both on the latter
(github.com/amzn/amzn-drivers issue 138): 140,000 to 310,000 a vCPU, of which the upper bound is
twice the latter. A Netty server on the 8 vCPUs of c7g.2xlarge moved 92,000 each, limited by its
CPUs (aws-graviton-getting-started, system-load-and-compute-headroom.md)."""

MOST_PACKETS_PER_S = (2.2e6, 20e6)
"""The same for large instances: m5.24xlarge had 2.2 million (stressgrid.com, *Packets-per-second
limits in EC2*, 2019); the largest network cards carry 10 million each way."""

CREDIT_S = (1_200.0, 5_300.0, 11_000.0)
"""Network credit that an instance begins with, in seconds of its baseline: low, value, high.
D. Vassallo downloaded from S3 with instances of 2019 until they were throttled
(threadreaderapp.com/thread/1120171727399448576): c5.large and m5.large had 6 Gbit/s for 7 minutes
and 0.6 then, xlarge 9 for 13 and 1.14 then, 2xlarge 10 for 26 and 2.28 then, which is 3,800, 5,400
and 5,300 s of the baseline beyond it. Later ones were not measured (assumed). AWS says that bursts
last 5 to 60 minutes by size, at best effort, and that an instance is launched with all its credit
(EC2 user guide, *Instance network bandwidth*)."""

LONGEST_BURST_S = 3_600.0
"""The hour that AWS names."""


class InstanceSize(_Group):
    """One size of a family; bandwidths in Gbit/s, `burst` where it may exceed the baseline."""

    vcpus: int = Field(gt=0)
    baseline_gbit_per_s: float = Field(gt=0)
    burst_gbit_per_s: float = Field(gt=0)

    @model_validator(mode="after")
    def _check(self) -> "InstanceSize":
        if self.burst_gbit_per_s < self.baseline_gbit_per_s:
            raise ValueError("a burst bandwidth not below the baseline")
        return self


class InstanceFamily(_Group):
    """A family such as `c7g`: memory and price are proportional to its vCPUs.

    Attributes
    ----------
    host
        Catalogue id of the host it runs on.
    bursts
        Whether it has network credits; without them what lies between `baseline` and `burst` is
        only not known.
    threads_per_core
        1 where a vCPU is a core, 2 where it is a hyperthread.
    usd_per_vcpu_hour
        On-demand price of one vCPU in `region` on `price_date`.
    """

    family: str
    title: str
    host: str
    bursts: bool = True
    threads_per_core: int = Field(ge=1, le=2)
    memory_gib_per_vcpu: Quantity
    usd_per_vcpu_hour: Quantity
    region: str
    price_date: str
    network: Quantity
    sources: dict[str, Source]
    sizes: dict[str, InstanceSize]

    @model_validator(mode="after")
    def _check(self) -> "InstanceFamily":
        for quantity in (self.memory_gib_per_vcpu, self.usd_per_vcpu_hour, self.network):
            if quantity.source is not None and quantity.source not in self.sources:
                raise ValueError(f"a source listed in this file, not {quantity.source!r}")
        return self


class Instance(_Group):
    """One instance as plain numbers; prices in US dollars an hour on demand."""

    name: str
    host_id: str
    vcpus: int
    threads_per_core: int
    memory_gib: float
    baseline_gbit_per_s: float
    burst_gbit_per_s: float
    price_usd_per_hour: float
    region: str
    price_date: str

    @property
    def cores(self) -> int:
        """Physical cores: half the vCPUs where a vCPU is a hyperthread."""
        return max(1, self.vcpus // self.threads_per_core)

    @property
    def network_credit_gbit(self) -> Quantity:
        """What it may send beyond its baseline at first; 0 without bursts."""
        beyond = self.burst_gbit_per_s - self.baseline_gbit_per_s
        low, value, high = (
            min(LONGEST_BURST_S * beyond, seconds * self.baseline_gbit_per_s)
            for seconds in CREDIT_S
        )
        return Quantity(
            value=value,
            unit="Gbit",
            kind="assumed",
            low=low,
            high=high,
            method=f"{CREDIT_S[1]:,.0f} s of the baseline, as c5 and m5 had in 2019, at most an "
            "hour of the burst",
        )

    @property
    def packets_per_s(self) -> Quantity:
        """Packets of both directions it is allowed: unknown, within what was seen elsewhere."""
        low, high = (
            min(most, self.vcpus * each)
            for each, most in zip(PACKETS_PER_VCPU, MOST_PACKETS_PER_S, strict=True)
        )
        return Quantity(
            value=None,
            unit="1/s",
            kind="assumed",
            low=round(low),
            high=round(high),
            method=f"AWS publishes no limit; {self.vcpus} vCPUs with {PACKETS_PER_VCPU[0]:,.0f} to "
            f"{PACKETS_PER_VCPU[1]:,.0f} each, both directions together, from what was measured on "
            "c5n.4xlarge and c5n.9xlarge",
        )


@lru_cache(maxsize=1)
def families() -> dict[str, InstanceFamily]:
    """All families of the catalogue by name."""
    found = {}
    for file in sorted(INSTANCE_FOLDER.glob("*.yaml")):
        family = parse(InstanceFamily, read_yaml(file), file=file)
        found[family.family] = family
    return found


def list_instances() -> list[Instance]:
    """Every instance of the catalogue, by family and size."""
    return [
        _instance(family, size)
        for family in families().values()
        for size in sorted(family.sizes, key=lambda name: family.sizes[name].vcpus)
    ]


def _instance(family: InstanceFamily, size: str) -> Instance:
    row = family.sizes[size]
    return Instance(
        name=f"{family.family}.{size}",
        host_id=family.host,
        vcpus=row.vcpus,
        threads_per_core=family.threads_per_core,
        memory_gib=row.vcpus * family.memory_gib_per_vcpu.best,
        baseline_gbit_per_s=row.baseline_gbit_per_s,
        burst_gbit_per_s=row.burst_gbit_per_s,
        price_usd_per_hour=round(row.vcpus * family.usd_per_vcpu_hour.best, 6),
        region=family.region,
        price_date=family.price_date,
    )
