"""The catalogue as plain data: hosts, instances, engines and datasets under one roof of names."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, cast

from forecache.sim.errors import InputError

if TYPE_CHECKING:
    from forecache.calibration.validate.dataset import Dataset
    from forecache.hwprofiles import Instance
    from forecache.hwprofiles.quantity import Quantity, Source
    from forecache.models.engines.generator import GeneratorProfile
    from forecache.models.engines.profile import EngineProfile


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
    """The instances that the filters leave."""

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


def listing() -> Listing:
    """Return one row for everything the catalogue has, by kind."""
    from forecache.calibration.validate.dataset import list_datasets, why_not_predicted
    from forecache.hwprofiles import list_hosts, list_instances
    from forecache.models.engines.generator import list_generators
    from forecache.models.engines.profile import list_engines
    from forecache.models.prices.nodes import list_nodes

    return {
        "hosts": [
            {
                "id": host.id,
                "title": host.title,
                "isa": host.isa,
                "cores": round(host.topology.cores.best * host.topology.sockets.best),
                "clock_ghz": host.clock_ghz.best,
                "l3_bytes": round(host.caches[2].size_bytes.best),
                "dram_latency_ns": host.dram.latency_ns.best,
            }
            for host in list_hosts()
        ],
        "families": _families(list_instances()),
        "instances": instances(),
        "managed_nodes": [
            cast(ManagedNodeRow, {"id": node.name} | node.model_dump(mode="json", exclude={"name"}))
            for node in list_nodes()
        ],
        "engines": [
            {
                "id": engine.id,
                "title": engine.title,
                "engine": engine.engine,
                "version": engine.version,
                "policy": engine.policy,
            }
            for engine in list_engines()
        ],
        "load_generators": [
            {"id": generator.id, "title": generator.title} for generator in list_generators()
        ],
        "datasets": [
            {
                "id": dataset.id,
                "title": dataset.title,
                "points": len(dataset.points),
                "validation_points": sum(point.role == "validation" for point in dataset.points),
                "not_predicted": why_not_predicted(dataset),
            }
            for dataset in list_datasets()
        ],
    }


def instances(
    provider: str | None = None,
    family: str | None = None,
    arch: str | None = None,
    min_memory_gib: float | None = None,
) -> list[ListedInstance]:
    """Return a row for every instance that the filters leave."""
    from forecache.hwprofiles import list_hosts, list_instances
    from forecache.hwprofiles.files import did_you_mean
    from forecache.hwprofiles.instances import families

    by_lower = {known.lower(): known for known in families()}
    if family is not None and family.lower() not in by_lower:
        raise InputError(f"--family: found {family!r}; {did_you_mean(family, families())}")
    isa = {host.id: host.isa for host in list_hosts()}
    return [
        {
            "id": row.name,
            "provider": cast(str, row.provider),
            "family": row.family,
            "host": row.host_id,
            "arch": isa[row.host_id],
            "vcpus": row.vcpus,
            "threads_per_core": row.threads_per_core,
            "memory_gib": row.memory_gib,
            "network": row.network,
            "baseline_gbit_per_s": row.baseline_gbit_per_s,
            "burst_gbit_per_s": row.burst_gbit_per_s,
            "price_usd_per_hour": row.usd_per_hour,
            "price": None if row.usd_per_hour is None else f"on demand, {row.region}, {row.priced}",
        }
        for row in list_instances()
        if provider in (None, row.provider)
        and (family is None or row.family == by_lower[family.lower()])
        and arch in (None, isa[row.host_id])
        and row.memory_gib >= (min_memory_gib or 0.0)
    ]


def _families(rows: "Iterable[Instance]") -> list[FamilyRow]:
    """A row for every family, from its instances by size."""
    from forecache.hwprofiles.instances import families

    by_family: dict[str, list[Instance]] = {}
    for row in rows:
        by_family.setdefault(row.family, []).append(row)
    return [
        {
            "id": name,
            "title": families()[name].title,
            "provider": families()[name].provider,
            "host": families()[name].host,
            "threads_per_core": families()[name].threads_per_core,
            "least_vcpus": min(row.vcpus for row in members),
            "most_vcpus": max(row.vcpus for row in members),
            "most_memory_gib": max(row.memory_gib for row in members),
            "instances": len(members),
        }
        for name, members in by_family.items()
    ]


def entry(name: str) -> CatalogueEntry:
    """Return one entry: what it is, every number with range and origin, and the sources.

    Raises
    ------
    InputError
        When nothing has that name; close matches are listed.
    """
    from forecache.calibration.validate.dataset import list_datasets
    from forecache.hwprofiles import load_host
    from forecache.hwprofiles.named_files import names_file
    from forecache.models.engines.generator import list_generators
    from forecache.models.engines.profile import list_engines

    engines = {engine.id: engine for engine in list_engines()}
    if name in engines:
        engine = engines[name]
        about = {field: getattr(engine, field) for field in _ENGINE_RULES} | _observed(engine)
        return _work_entry("engine", engine, about=about, notes=engine.notes)
    generators = {generator.id: generator for generator in list_generators()}
    if name in generators:
        return _work_entry("load generator", generators[name], about={}, notes=[])
    datasets = {dataset.id: dataset for dataset in list_datasets()}
    if name in datasets:
        return _dataset_entry(datasets[name])
    if not names_file(name):
        _check_host_name(name, others=[*engines, *generators, *datasets])
    host = load_host(name)
    return {
        "type": "host" if host.instance is None else "instance",
        "id": host.id,
        "title": host.title,
        "about": {"isa": host.isa, "microarchitecture": host.microarchitecture},
        "rows": _rows(host.quantities()),
        "sources": _sources(host.sources),
        "notes": list(host.notes),
    }


def _dataset_entry(dataset: "Dataset") -> CatalogueEntry:
    from forecache.calibration.validate.comparison import label, varying
    from forecache.calibration.validate.dataset import UNITS, why_not_predicted

    names = varying([point.given for point in dataset.points])
    rows: list[NumberRow] = []
    for point in dataset.points:
        given = label(point.given, names or None)
        for quantity, value in point.observed.items():
            unit = next(ending for ending in UNITS if quantity.endswith(ending))
            rows.append(
                {
                    "name": f"{given}: {quantity.removesuffix(unit)}",
                    "value": value,
                    "low": None,
                    "high": None,
                    "unit": {"_rps": "1/s", "_bytes": "B"}.get(unit, unit[1:]),
                    "kind": "published",
                    "source": None,
                    "method": f"{point.role} point",
                    "status": "provisional",
                }
            )
    shared = {name: value for name, value in dataset.scenario.items() if name != "workload"}
    missing = why_not_predicted(dataset)
    return {
        "type": "dataset",
        "id": dataset.id,
        "title": dataset.title,
        "about": {**shared, **(dataset.scenario.get("workload") or {})}
        | ({"not predicted": missing} if missing else {}),
        "rows": rows,
        "sources": {
            source.id: {"title": source.note, "url": source.url, "file": source.file}
            for source in dataset.sources
        },
        "notes": [],
    }


def _observed(engine: "EngineProfile") -> dict[str, str]:
    """Where its work was observed and why that holds for this version, if it was."""
    about = {}
    if engine.observed is not None:
        about["observed"] = f"{engine.observed.build}, on {engine.observed.host}"
    if engine.reuse is not None:
        reuse = engine.reuse
        about["reuse"] = f"the work of {reuse.origin} for {reuse.to}: {reuse.reason}"
    return about


def _check_host_name(name: str, *, others: Iterable[str]) -> None:
    """Refuse what is no host, no instance and no host-instance, with the closest names of all."""
    from forecache.hwprofiles import list_hosts, list_instances
    from forecache.hwprofiles.files import did_you_mean
    from forecache.models.prices.nodes import list_nodes

    if name in {node.name for node in list_nodes()}:
        raise InputError(
            f"the managed node {name!r} has no entry of its own; `forecache catalog` lists what is "
            "known of it."
        )
    hosts = [host.id for host in list_hosts()]
    instances = {row.name: row.host_id for row in list_instances()}
    host, _, instance = name.rpartition("-")
    if name in hosts or name in instances or (host in hosts and instance in instances):
        return
    pairs = [f"{host}-{instance}" for instance, host in instances.items()]
    began_with_a_host = any(name.startswith(f"{host}-") for host in hosts)
    help_with_it = did_you_mean(name, pairs if began_with_a_host else [*hosts, *instances, *others])
    if not help_with_it.startswith("did you mean"):
        help_with_it = "`forecache catalog` lists all entries."
    raise InputError(f"the catalogue has no entry {name!r}; {help_with_it}")


def _sources(sources: "Mapping[str, Source]") -> dict[str, Any]:
    return {key: source.model_dump(exclude_none=True) for key, source in sources.items()}


def _rows(quantities: "Iterable[tuple[str, Quantity]]") -> list[NumberRow]:
    return [
        {
            "name": path,
            "value": quantity.value,
            "low": quantity.low,
            "high": quantity.high,
            "unit": quantity.unit,
            "kind": quantity.kind,
            "source": quantity.source,
            "method": quantity.method,
            "status": quantity.status,
        }
        for path, quantity in quantities
    ]


_ENGINE_RULES = (
    "engine",
    "version",
    "policy",
    "layout",
    "whole_pipeline",
    "prefetch_batch",
    "events_per_io_thread",
    "job_capacity",
    "max_io_threads",
)


def _work_entry(
    kind: Literal["engine", "load generator"],
    profile: "EngineProfile | GeneratorProfile",
    *,
    about: dict[str, Any],
    notes: list[str],
) -> CatalogueEntry:
    return {
        "type": kind,
        "id": profile.id,
        "title": profile.title,
        "about": about,
        "rows": _rows(profile.work.items()),
        "sources": _sources(profile.sources),
        "notes": list(notes),
    }
