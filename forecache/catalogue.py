"""The catalogue as plain data: hosts, instances and engines under one roof of names."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from forecache.sim.errors import InputError


def listing() -> dict[str, Any]:
    """Return one row for every host, instance and engine of the catalogue."""
    from forecache.hwprofiles import list_hosts, list_instances

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
        "instances": [
            {
                "id": instance.name,
                "host": instance.host_id,
                "vcpus": instance.vcpus,
                "threads_per_core": instance.threads_per_core,
                "memory_gib": instance.memory_gib,
                "baseline_gbit_per_s": instance.baseline_gbit_per_s,
                "burst_gbit_per_s": instance.burst_gbit_per_s,
                "price_usd_per_hour": instance.price_usd_per_hour,
                "price": f"on demand, {instance.region}, {instance.price_date}",
            }
            for instance in list_instances()
        ],
        "engines": _engines(),
    }


def entry(name: str) -> dict[str, Any]:
    """Return one entry: what it is, every number with range and origin, and the sources.

    Raises
    ------
    InputError
        When nothing has that name; close matches are listed.
    """
    from forecache.hwprofiles import load_host

    files = _engine_files()
    if name in files:
        return _engine_entry(files[name])
    if not _is_file(name):
        _check_host_name(name, engines=files)
    host = load_host(name)
    return {
        "type": "host" if host.instance is None else "instance",
        "id": host.id,
        "title": host.title,
        "about": {"isa": host.isa, "microarchitecture": host.microarchitecture},
        "rows": _rows(host.quantities()),
        "sources": {
            key: source.model_dump(exclude_none=True) for key, source in host.sources.items()
        },
        "notes": list(host.notes),
    }


def _is_file(name: str) -> bool:
    return name.endswith((".yaml", ".yml")) or "/" in name


def _check_host_name(name: str, *, engines: Iterable[str]) -> None:
    """Refuse what is no host, no instance and no host-instance, with the closest names of all."""
    from forecache.hwprofiles import list_hosts, list_instances
    from forecache.hwprofiles.files import did_you_mean

    hosts = [host.id for host in list_hosts()]
    instances = {row.name: row.host_id for row in list_instances()}
    host, _, instance = name.rpartition("-")
    if name in hosts or name in instances or (host in hosts and instance in instances):
        return
    pairs = [f"{host}-{instance}" for instance, host in instances.items()]
    began_with_a_host = any(name.startswith(f"{host}-") for host in hosts)
    help_with_it = did_you_mean(
        name, pairs if began_with_a_host else [*hosts, *instances, *engines]
    )
    if not help_with_it.startswith("did you mean"):
        help_with_it = "`forecache catalog` lists what there is."
    raise InputError(f"the catalogue has no entry {name!r}; {help_with_it}")


def _rows(quantities: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
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


def _engine_files() -> dict[str, Path]:
    """Return the engine profiles that come with `models`, by name."""
    import forecache.models as models

    folder = Path(str(models.__file__)).parent / "engines"
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def _engines() -> list[dict[str, Any]]:
    from forecache.hwprofiles.files import read_yaml

    rows = []
    for name, file in _engine_files().items():
        data = read_yaml(file)
        scalars = {key: value for key, value in data.items() if isinstance(value, str | int)}
        rows.append({**scalars, "id": name})
    return rows


def _engine_entry(file: Path) -> dict[str, Any]:
    from forecache.hwprofiles.files import read_yaml

    data = read_yaml(file)
    about = {key: value for key, value in data.items() if isinstance(value, str | int)}
    return {
        "type": "engine",
        "id": file.stem,
        "title": str(data.get("title", file.stem)),
        "about": {key: value for key, value in about.items() if key not in ("id", "title")},
        "rows": [
            {"name": path, **{field: leaf.get(field) for field in _LEAF_FIELDS}}
            for path, leaf in _leaves(data, "")
        ],
        "sources": data.get("sources") or {},
        "notes": list(data.get("notes") or []),
    }


_LEAF_FIELDS = ("value", "low", "high", "unit", "kind", "source", "method", "status")


def _leaves(node: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every number with an origin below a node, with its dotted path."""
    if isinstance(node, dict):
        if "value" in node and "kind" in node:
            yield path, node
            return
        for key, child in node.items():
            yield from _leaves(child, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list):
        for number, child in enumerate(node):
            name = child.get("name", number) if isinstance(child, dict) else number
            yield from _leaves(child, f"{path}.{name}")
