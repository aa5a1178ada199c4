"""Finding a host: by catalogue id, by cloud instance, or in a file."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from forecache.sim.errors import InputError

from .files import did_you_mean, parse, read_yaml
from .instances import Instance, InstanceFamily, families, list_instances
from .learned import Learned, with_learned
from .quantity import Quantity, Source
from .schema import HostProfile

HOST_FOLDER = Path(__file__).parent / "hosts"


def list_hosts() -> list[HostProfile]:
    """Every host of the catalogue, by id."""
    return [_catalogue_host(host_id) for host_id in _host_ids()]


def load_host(name_or_path: str | Path, *, fitted: bool = True) -> HostProfile:
    """The profile of a host.

    Parameters
    ----------
    name_or_path
        A catalogue host (`graviton3`), an instance (`c7g.4xlarge`), both (`graviton3-c7g.4xlarge`),
        or a profile file, recognised by its ending `.yaml` or `.yml` or a folder in its name.
    fitted
        Whether a host of the catalogue is as it was fitted to datasets, or as it was known before.

    Raises
    ------
    InputError
        Nothing has that name (with the nearest names), the instance runs on another host, or the
        file is not a profile.
    """
    name = str(name_or_path)
    if (
        isinstance(name_or_path, Path)
        or name.endswith((".yaml", ".yml"))
        or "/" in name
        or Path(name).is_file()
    ):
        return parse(HostProfile, read_yaml(name_or_path), file=name)
    if name in _host_ids():
        return _catalogue_host(name, fitted=fitted)
    instances = _instances()
    if name in instances:
        return _on_instance(instances[name], fitted=fitted)
    host_id, _, instance_name = name.rpartition("-")
    if host_id in _host_ids() and instance_name in instances:
        instance = instances[instance_name]
        if instance.host_id != host_id:
            raise InputError(
                f"host {name!r}: {instance_name} runs on {instance.host_id}, not {host_id}; "
                f"valid is {instance.host_id}-{instance_name} or {instance_name}."
            )
        return _on_instance(instance, fitted=fitted)
    known = [*_host_ids(), *instances]
    if host_id in _host_ids():
        known = [f"{row.host_id}-{row.name}" for row in instances.values()]
    raise InputError(
        f"host {name!r}: no host, instance or profile file has this name; "
        + did_you_mean(name, known)
    )


@lru_cache(maxsize=1)
def _host_ids() -> tuple[str, ...]:
    return tuple(sorted(file.parent.name for file in HOST_FOLDER.glob("*/profile.yaml")))


@lru_cache(maxsize=1)
def _instances() -> Mapping[str, Instance]:
    return {instance.name: instance for instance in list_instances()}


@lru_cache(maxsize=64)
def _catalogue_host(host_id: str, *, fitted: bool = True) -> HostProfile:
    file = HOST_FOLDER / host_id / "profile.yaml"
    data, beside = read_yaml(file), file.with_name("learned.yaml")
    if fitted and beside.exists():
        data = with_learned(data, parse(Learned, read_yaml(beside), file=beside))
    return parse(HostProfile, data, file=file)


def _on_instance(instance: Instance, *, fitted: bool = True) -> HostProfile:
    """A host as a tenant of one instance sees it."""
    host = _catalogue_host(instance.host_id, fitted=fitted)
    family = families()[instance.name.split(".")[0]]
    threads = instance.threads_per_core
    vcpu_is = "a core" if threads == 1 else "a hyperthread (half a core)"
    share = min(1.0, instance.cores / (host.topology.cores.best * host.topology.sockets.best))
    topology = host.topology.model_copy(
        update={
            "cores": host.topology.cores.model_copy(
                update={
                    "value": float(instance.cores),
                    "method": f"{instance.name} has {instance.vcpus} vCPUs, each {vcpu_is}",
                    "source": "instance",
                }
            )
        }
    )
    caches = [
        cache.model_copy(update={"size_bytes": _shared(cache.size_bytes, share)})
        if cache.name == "L3"
        else cache
        for cache in host.caches
    ]
    bandwidth = _shared(host.dram.peak_bandwidth_gb_per_s, share)
    network = host.network.model_copy(update=_network_of(instance, family))
    changes: Mapping[str, object] = {
        "id": f"{host.id}-{instance.name}",
        "title": f"{instance.name} ({host.title})",
        "instance": instance.name,
        "notes": [*host.notes, f"A vCPU of {instance.name} is {vcpu_is}."],
        "sources": {
            **host.sources,
            "instance": Source(
                title=f"Catalogue entry of {family.family}: {family.title}",
                file=f"hwprofiles/instances/{family.family}.yaml",
                accessed=family.price_date,
                note="its own sources are listed there",
            ),
        },
        "topology": topology,
        "caches": caches,
        "dram": host.dram.model_copy(update={"peak_bandwidth_gb_per_s": bandwidth}),
        "network": network,
        "memory_gib": Quantity(
            value=instance.memory_gib, unit="GiB", kind="published", source="instance"
        ),
        "price_usd_per_hour": Quantity(
            value=instance.price_usd_per_hour,
            unit="USD/h",
            kind="published",
            source="instance",
            method=f"on demand, {instance.region}, read {instance.price_date}",
        ),
    }
    return host.model_copy(update=dict(changes))


def _network_of(instance: Instance, family: InstanceFamily) -> dict[str, Quantity]:
    """What an instance has of its host's network: a baseline, and where it bursts, how far."""
    baseline, burst = instance.baseline_gbit_per_s, instance.burst_gbit_per_s
    known = {"value": baseline, "low": baseline, "source": "instance"}
    # A load that lasts has the baseline; the range of a family without bursts is what isn't known.
    known["high"] = baseline if family.bursts else burst
    found = {
        "bandwidth_gbit_per_s": family.network.model_copy(update=known),
        "packets_per_s": instance.packets_per_s,
    }
    if family.bursts and burst > baseline:
        found["burst_gbit_per_s"] = Quantity(
            value=burst, unit="Gbit/s", kind="published", source="instance"
        )
        found["credit_gbit"] = instance.network_credit_gbit
    return found


def _shared(quantity: Quantity, share: float) -> Quantity:
    """A resource all tenants of a host share: at worst the tenant's share of cores is left."""
    if share >= 1.0:
        return quantity
    low = share * (quantity.best if quantity.low is None else quantity.low)
    high = quantity.best if quantity.high is None else quantity.high
    reason = f"shared with other tenants: from {share:.3g} of it (share of the cores) to all of it"
    return quantity.model_copy(
        update={
            "low": low,
            "high": high,
            "method": f"{quantity.method}; {reason}" if quantity.method else reason,
        }
    )
