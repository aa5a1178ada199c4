"""The shape of what `catalog` returns, which is plain dictionaries (`catalogue`)."""

from typing import Any, Literal, NotRequired, TypedDict


class HostRow(TypedDict):
    """A host of the catalogue."""

    id: str
    title: str
    isa: str
    cores: int
    clock_ghz: float
    l3_bytes: int
    dram_latency_ns: float


class FamilyRow(TypedDict):
    """A family of instances."""

    id: str
    title: str
    provider: str
    host: str
    threads_per_core: int
    least_vcpus: int
    most_vcpus: int
    most_memory_gib: float
    instances: int
    """How many it has."""


class ListedInstance(TypedDict):
    """An instance."""

    id: str
    provider: str
    family: str
    host: str
    arch: str
    """Instruction set: `x86-64` or `aarch64`."""
    vcpus: int
    threads_per_core: int
    memory_gib: float
    network: str | None
    """How the provider treats what is above the baseline."""
    baseline_gbit_per_s: float | None
    burst_gbit_per_s: float | None
    price_usd_per_hour: float | None
    price: str | None
    """How it is paid, where, and as of when."""


class ManagedNodeRow(TypedDict):
    """A node that a service sells; null for what is not known."""

    id: str
    service: str
    vcpus: float | None
    usable_bytes: int | None
    """What keys and values may take by default."""
    baseline_gbit_per_s: float | None
    burst_gbit_per_s: float | None
    usd_per_hour: float | None
    """On demand, with Redis."""
    region: str | None
    price_date: str | None


class EngineRow(TypedDict):
    """An engine."""

    id: str
    title: str
    engine: str
    version: str
    policy: str
    """The threading policy."""


class GeneratorRow(TypedDict):
    """A load generator."""

    id: str
    title: str


class DatasetRow(TypedDict):
    """A dataset of measurements."""

    id: str
    title: str
    points: int
    validation_points: int
    """Of these, held out."""
    not_predicted: str | None
    """Why `validate` doesn't predict it as a load of one node."""


class Listing(TypedDict):
    """All that the catalogue has."""

    hosts: list[HostRow]
    families: list[FamilyRow]
    instances: list[ListedInstance]
    managed_nodes: list[ManagedNodeRow]
    engines: list[EngineRow]
    load_generators: list[GeneratorRow]
    datasets: list[DatasetRow]


class InstanceRows(TypedDict):
    """Instances that are as asked for."""

    instances: list[ListedInstance]


class NumberRow(TypedDict):
    """A number of an entry, and where it comes from."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    kind: str
    source: str | None
    """A key of `sources`."""
    method: str | None
    status: str


class SourceRow(TypedDict):
    """Where numbers come from."""

    title: NotRequired[str | None]
    url: NotRequired[str | None]
    file: NotRequired[str | None]
    accessed: NotRequired[str]
    """The day it was read."""
    licence: NotRequired[str]
    note: NotRequired[str]
    points: NotRequired[dict[str, list[int]]]
    """Of a dataset by its id, those that numbers rest on."""


class CatalogueEntry(TypedDict):
    """One entry of the catalogue."""

    type: Literal["host", "instance", "engine", "load generator", "dataset"]
    id: str
    title: str
    about: dict[str, Any]
    rows: list[NumberRow]
    sources: dict[str, SourceRow]
    notes: list[str]
