"""Cloud instances: how much of a host they are, and what they cost."""

from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .files import parse, read_yaml
from .quantity import Quantity, Source

INSTANCE_FOLDER = Path(__file__).parent / "instances"


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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
    threads_per_core
        1 where a vCPU is a core, 2 where it is a hyperthread.
    usd_per_vcpu_hour
        On-demand price of one vCPU in `region` on `price_date`.
    """

    family: str
    title: str
    host: str
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
