"""Cloud instances: how much of a host they are, and what they cost.

`instances/` has a table for each provider, a row an instance, and `families.yaml` for what all
instances of a family have in common. A file of one's own describes one more (`OwnInstance`).
"""

import csv
import io
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, Field, model_validator

from forecache.sim.errors import InputError

from .files import FieldError, did_you_mean, parse, read_text, read_yaml
from .quantity import Quantity, Source
from .record import Record

# --- tables of comma-separated values -------------------------------------------------------------


RowT = TypeVar("RowT", bound=BaseModel)


def read_rows(path: str | Path, model: type[RowT]) -> list[RowT]:
    """The rows of a table; its first line names the columns, lines that begin with `#` say more."""
    lines = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    columns: list[str] = []
    rows: list[RowT] = []
    try:
        for cells in lines:
            where = f"{path}, line {lines.line_num}"
            if not cells or cells[0].startswith("#"):
                continue
            if not columns:
                columns = _columns(cells, model, where=where)
                continue
            if len(cells) != len(columns):
                raise InputError(
                    f"{where}: found {len(cells)} cells; valid is {len(columns)}, one for each of "
                    f"{', '.join(columns)}."
                )
            filled = {name: cell.strip() for name, cell in zip(columns, cells, strict=True)}
            data = {name: _value(model, name, cell) for name, cell in filled.items() if cell}
            rows.append(parse(model, data, file=where))
    except csv.Error as error:
        raise InputError(
            f"{path}, line {lines.line_num}: found {error}; valid are cells between commas."
        ) from None
    if not rows:
        raise InputError(f"{path}: found no rows; valid is a line of columns and a line a row.")
    return rows


def _columns(cells: list[str], model: type[BaseModel], *, where: str) -> list[str]:
    columns = [cell.strip() for cell in cells]
    for name in columns:
        if name not in model.model_fields:
            help_with_it = did_you_mean(name, model.model_fields)
            raise InputError(f"{where}: found the column {name!r}; {help_with_it}")
        if columns.count(name) > 1:
            raise InputError(f"{where}: found the column {name!r} twice; valid is once.")
    return columns


def _value(model: type[BaseModel], name: str, cell: str) -> object:
    """A cell as a number where its column holds numbers; what is none is left for the check."""
    annotation = model.model_fields[name].annotation
    kinds = get_args(annotation) or (annotation,)
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(cell)
            except ValueError:
                return cell
    return cell


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

SHORTEST_BURST_S, LONGEST_BURST_S = 300.0, 3_600.0
"""The five minutes and the hour that AWS names."""


Provider = Literal["aws", "google", "azure", "alibaba", "other"]
"""Whose guest an instance is. `other`: of one that the catalogue has no instance of."""

HypervisorName = Literal[
    "nitro", "metal", "xen", "kvm", "kvm-haltpoll", "azure", "google", "alibaba", "container"
]
"""What an instance runs on: a hypervisor, none, or a container's network on one."""

REFERENCE: HypervisorName = "nitro"
"""On whose guests the catalogue's times of the kernel hold."""

_HYPERVISORS: dict[Provider, HypervisorName] = {
    "aws": REFERENCE,
    "google": "google",
    "azure": "azure",
    "alibaba": "alibaba",
    "other": "kvm",
}
"""Of a provider whose instance names none."""

Allowance = Literal["credits", "limit", "range"]
"""What is known of a family's network. `credits`: the baseline always, and the burst while there
is credit. `limit`: the provider names the most it lets through, in the column of the burst, and
guarantees nothing. `range`: there are no credits, and what lies between the two is not known."""

SHARE_OF_LIMIT = 0.5
"""Of a limit that a provider names without guaranteeing it, what an instance has at least
(assumed; no provider says how often less is left)."""


class _InstanceNumbers(Record):
    """The numbers of an instance, whoever says them; None for what is not known.

    Attributes
    ----------
    baseline_gbit_per_s, burst_gbit_per_s
        Of each direction: what it has always, and what it has for a while or at most.
    usd_per_hour
        On demand, with Linux, in `region`.
    priced
        Day of the price, as YYYY-MM-DD.
    """

    name: str = Field(min_length=1)
    vcpus: int = Field(gt=0)
    memory_gib: float = Field(gt=0)
    baseline_gbit_per_s: float | None = Field(default=None, gt=0)
    burst_gbit_per_s: float | None = Field(default=None, gt=0)
    usd_per_hour: float | None = Field(default=None, gt=0)
    region: str | None = None
    priced: str | None = None

    @model_validator(mode="after")
    def _check_burst(self) -> Self:
        baseline, burst = self.baseline_gbit_per_s, self.burst_gbit_per_s
        if baseline is not None and burst is not None and burst < baseline:
            valid = f"a burst not below the baseline ({baseline:g})"
            raise FieldError("burst_gbit_per_s", found=burst, valid=valid)
        return self

    @property
    def numbers(self) -> dict[str, Any]:
        """Those above, by name."""
        return {name: getattr(self, name) for name in _InstanceNumbers.model_fields}


class InstanceRow(_InstanceNumbers):
    """A row of a provider's table; what is not known is empty.

    Attributes
    ----------
    packets_per_s
        Of both directions together, where the provider publishes it.
    """

    family: str
    packets_per_s: float | None = Field(default=None, gt=0)
    priced: str | None = Field(default=None, pattern=r"^\d{4}-\d\d-\d\d$")

    @model_validator(mode="after")
    def _check_price(self) -> Self:
        for name in ("region", "priced"):
            if (self.usd_per_hour is None) != (getattr(self, name) is None):
                valid = "given exactly where usd_per_hour is"
                raise FieldError(name, found=getattr(self, name), valid=valid)
        return self


class InstanceFamily(Record):
    """What instances such as those of `c7g` have in common.

    Attributes
    ----------
    host
        Catalogue id of the host they run on.
    threads_per_core
        1 where a vCPU is a core, 2 where it is a hyperthread.
    vcpu_source
        Source that says so.
    sources
        Of the other columns.
    processors
        Where the provider promises none: those an instance may have, first that of `host`.
    hypervisor
        By whose factors its kernel's times are taken; its provider's where nothing is said.
    note
        What every prediction says.
    """

    provider: Provider
    title: str
    host: str
    hypervisor: HypervisorName | None = None
    processors: list[str] = Field(default_factory=list)
    threads_per_core: int = Field(ge=1, le=2)
    vcpu_source: str
    network: Allowance
    sources: list[str]
    note: str = ""


class ProviderNetwork(Record):
    """The network of a provider; instances of one without an entry have that of their host."""

    mtu_bytes: Quantity
    flow_gbit_per_s: Quantity | None = None


class Hypervisor(Record):
    """What the kernel takes on a hypervisor, over what it takes on `REFERENCE`.

    Attributes
    ----------
    title
        What it is, as in "runs on ...".
    calls
        Of system calls, messages and polls.
    waking
        Of what sending to a sleeping thread and falling asleep take.
    wake_latency
        Of the time until the sleeper runs.
    tickless_block_scale, tickless_latency_scale
        As in `Kernel`, where they differ from what is assumed of every host.
    """

    title: str
    calls: Quantity
    waking: Quantity
    wake_latency: Quantity
    tickless_block_scale: Quantity | None = None
    tickless_latency_scale: Quantity | None = None


class Families(Record):
    """`families.yaml`."""

    sources: dict[str, Source]
    networks: dict[Provider, ProviderNetwork]
    hypervisors: dict[HypervisorName, Hypervisor]
    families: dict[str, InstanceFamily]

    @model_validator(mode="after")
    def _check(self) -> "Families":
        named = {
            f"families.{name}": [family.vcpu_source, *family.sources]
            for name, family in self.families.items()
        }
        groups: dict[str, Record] = {f"networks.{n}": group for n, group in self.networks.items()}
        groups |= {f"hypervisors.{n}": group for n, group in self.hypervisors.items()}
        for place, group in groups.items():
            leaves = [leaf for _, leaf in group if isinstance(leaf, Quantity)]
            named[place] = [leaf.source for leaf in leaves if leaf.source is not None]
        for place, sources in named.items():
            for source in sources:
                if source not in self.sources:
                    known = did_you_mean(source, self.sources).rstrip(".")
                    valid = f"a source listed in this file: {known}"
                    raise FieldError(place, found=source, valid=valid)
        return self


class Instance(_InstanceNumbers):
    """One instance, with what its family or the file that describes it says of its kind."""

    family: str
    provider: Provider | None
    hypervisor: HypervisorName | None
    host_id: str
    threads_per_core: int
    network: Allowance
    packets_limit_per_s: float | None = None

    @property
    def cores(self) -> int:
        """Physical cores: half the vCPUs where a vCPU is a hyperthread."""
        return max(1, self.vcpus // self.threads_per_core)

    @property
    def vcpu_is(self) -> str:
        """What a vCPU is, in words."""
        return "a core" if self.threads_per_core == 1 else "a hyperthread (half a core)"

    @property
    def steady_gbit_per_s(self) -> float | None:
        """What a load that lasts has: the baseline, or the limit where a provider names no more."""
        return self.burst_gbit_per_s if self.network == "limit" else self.baseline_gbit_per_s

    @property
    def network_credit_gbit(self) -> Quantity:
        """What it may send beyond its baseline at first; 0 without bursts."""
        baseline = self.baseline_gbit_per_s or 0.0
        beyond = max(0.0, (self.burst_gbit_per_s or 0.0) - baseline)
        low, value, high = (
            min(LONGEST_BURST_S * beyond, seconds * baseline) for seconds in CREDIT_S
        )
        value = max(value, SHORTEST_BURST_S * beyond)
        return Quantity(
            value=value,
            unit="Gbit",
            kind="assumed",
            low=low,
            high=max(high, value),
            method=f"{CREDIT_S[1]:,.0f} s of the baseline, as c5 and m5 had in 2019, but "
            "for five minutes of the burst, and at most for an hour",
        )

    @property
    def packets_per_s(self) -> Quantity:
        """Packets of both directions it may move: if unknown, within what was seen elsewhere."""
        if self.packets_limit_per_s is not None:
            return Quantity(
                value=self.packets_limit_per_s,
                unit="1/s",
                kind="published",
                source="instance",
                method="both directions together",
            )
        low, high = (
            min(most, self.vcpus * each)
            for each, most in zip(PACKETS_PER_VCPU, MOST_PACKETS_PER_S, strict=True)
        )
        who = "AWS" if self.provider in ("aws", None) else "the provider"
        return Quantity(
            value=None,
            unit="1/s",
            kind="assumed",
            low=round(low),
            high=round(high),
            method=f"{who} publishes no limit; {self.vcpus} vCPUs with {PACKETS_PER_VCPU[0]:,.0f} "
            f"to {PACKETS_PER_VCPU[1]:,.0f} each, both directions together, from what was measured "
            "on c5n.4xlarge and c5n.9xlarge",
        )


class OwnInstance(_InstanceNumbers):
    """An instance that a file of one's own describes.

    Attributes
    ----------
    host
        A host of the catalogue, or the path of a profile.
    threads_per_core
        As the host has, where nothing is said.
    provider
        Whose guest it is, which its network goes by; its host's where nothing is said.
    hypervisor
        By whose factors its kernel's times are taken: its provider's where nothing is said, none
        where no provider is named either.
    """

    host: str
    threads_per_core: int | None = Field(default=None, ge=1, le=2)
    provider: Provider | None = None
    hypervisor: HypervisorName | None = None
    network: Allowance = "credits"

    def on(self, host_id: str, threads_per_core: int) -> Instance:
        """The instance on a host that has so many threads a core."""
        numbers = self.numbers
        numbers["burst_gbit_per_s"] = self.burst_gbit_per_s or self.baseline_gbit_per_s
        return Instance(
            **numbers,
            family=self.name,
            provider=self.provider,
            hypervisor=self.hypervisor or (self.provider and _HYPERVISORS[self.provider]),
            host_id=host_id,
            threads_per_core=self.threads_per_core or threads_per_core,
            network=self.network,
        )


@lru_cache(maxsize=1)
def catalogue_families() -> Families:
    """What is said of all families, with the sources."""
    file = INSTANCE_FOLDER / "families.yaml"
    return parse(Families, read_yaml(file), file=file)


def families() -> dict[str, InstanceFamily]:
    """All families of the catalogue by name, in the order of their file."""
    return catalogue_families().families


@lru_cache(maxsize=1)
def _all_instances() -> tuple[Instance, ...]:
    found: dict[str, Instance] = {}
    for provider in ("aws", "google", "azure", "alibaba"):
        for instance in read_instances(INSTANCE_FOLDER / f"{provider}.csv", families()):
            if instance.name in found:
                raise InputError(f"{provider}.csv: found {instance.name} twice; valid is once.")
            found[instance.name] = instance
    order = list(families())
    return tuple(sorted(found.values(), key=lambda row: (order.index(row.family), row.vcpus)))


def list_instances() -> list[Instance]:
    """Every instance of the catalogue, by family and size."""
    return list(_all_instances())


class RegionPrice(Record):
    """A row of `regions.csv`: what the vCPU of some sizes costs in a region.

    Attributes
    ----------
    instances
        One name, or sizes of one kind: `c7g.*`, where the star stands for `_SIZE`.
    """

    instances: str
    region: str
    usd_per_vcpu_hour: float = Field(gt=0)
    priced: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    source: str


_SIZE = r"(?:\d*x?large|medium|small|micro|\d+)"


@lru_cache(maxsize=1)
def region_prices() -> Mapping[str, list[RegionPrice]]:
    """Rows by region, those of one name first."""
    file = INSTANCE_FOLDER / "regions.csv"
    found: dict[str, list[RegionPrice]] = {}
    for row in sorted(read_rows(file, RegionPrice), key=lambda row: "*" in row.instances):
        if row.source not in catalogue_families().sources:
            raise InputError(
                f"{file}: column 'source' of {row.instances}: found {row.source!r}; valid is a "
                "source of families.yaml."
            )
        found.setdefault(row.region, []).append(row)
    return found


def priced_in(instance: Instance, region: str | None) -> Instance | None:
    """An instance with its price in a region; None where none is known.

    Without a region it is the one that the price of the provider's table is of.
    """
    if region in (None, instance.region):
        return instance
    if instance.usd_per_hour is None:
        return None  # a pattern may match a size whose price the table leaves out
    for row in region_prices().get(str(region), []):
        if re.fullmatch(re.escape(row.instances).replace(r"\*", _SIZE), instance.name):
            usd = round(instance.vcpus * row.usd_per_vcpu_hour, 4)
            changes = {"usd_per_hour": usd, "region": region, "priced": row.priced}
            return instance.model_copy(update=changes)
    return None


def instance_in(instance: Instance, region: str | None) -> Instance:
    """The same, or an `InputError` that names the regions whose price is known."""
    found = priced_in(instance, region)
    if found is None:
        regions = [*filter(None, [instance.region]), *sorted(region_prices())]
        known = [each for each in regions if priced_in(instance, each)]
        raise InputError(
            f"field 'region': found {region!r}, where the price of {instance.name} is not known; "
            f"valid is {' or '.join([', '.join(known[:-1]), known[-1]] if known[1:] else known)}"
            f"{', or ' if known else ''}a file with its usd_per_hour (docs/add-a-host.md)."
        )
    return found


def read_instances(file: str | Path, of: dict[str, InstanceFamily]) -> list[Instance]:
    """The instances of a table."""
    return [_instance(row, of, file=file) for row in read_rows(file, InstanceRow)]


def _instance(row: InstanceRow, of: dict[str, InstanceFamily], *, file: str | Path) -> Instance:
    if row.family not in of:
        raise InputError(
            f"{file}: column 'family' of {row.name}: found {row.family!r}; valid is a family of "
            f"families.yaml: {did_you_mean(row.family, of).removeprefix('valid are ')}"
        )
    family = of[row.family]
    return Instance(
        **row.numbers,
        family=row.family,
        provider=family.provider,
        hypervisor=family.hypervisor or _HYPERVISORS[family.provider],
        host_id=family.host,
        threads_per_core=family.threads_per_core,
        network=family.network,
        packets_limit_per_s=row.packets_per_s,
    )
