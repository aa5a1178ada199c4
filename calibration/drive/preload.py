"""Load a data set into an engine and bring it to rest before anything is measured."""

from collections.abc import Collection
from dataclasses import replace

from forecache.sim.errors import EngineError

from .connection import Address, ControlClient
from .loadgen import LoadGenerator
from .loadspec import LoadSpec, Popularity

_CLIENTS = 4
_BATCH_BYTES = 64 * 1024
_LONGEST_PIPELINE = 128
_LONGEST_S = 300.0
# What one key costs beyond its bytes, at most: entry, object and string headers, bucket, and the
# roundings of the allocator (see the memory model in `forecache.models`).
_OVERHEAD_BYTES = 160


def memory_bytes(spec: LoadSpec) -> int:
    """An upper estimate of the engine's memory for the data set, buffers included."""
    total = sum(weight for _, weight in spec.value_sizes)
    value_bytes = sum(size * weight for size, weight in spec.value_sizes) / total
    largest = max(size for size, _ in spec.value_sizes)
    data = spec.keys * (spec.key_bytes + value_bytes * 1.25 + _OVERHEAD_BYTES)
    return round(data + spec.clients * (spec.pipeline * largest + 64 * 1024))


def preload(
    spec: LoadSpec,
    address: Address,
    *,
    control: ControlClient,
    cores: Collection[int] | None = None,
) -> None:
    """SET every key once, then GET as many at random, and see that all are there.

    The GETs do more than check: engines that grow their table step by step move a bucket with
    each command, and twice as many commands as keys leave nothing to move.

    Raises
    ------
    EngineError
        The engine refuses a SET, or keys are missing afterwards (`maxmemory` of Redis, `-m` of
        Memcached).
    """
    largest = max(size for size, _ in spec.value_sizes)
    pipeline = max(1, min(_LONGEST_PIPELINE, _BATCH_BYTES // (largest + spec.key_bytes + 32)))
    clients = min(_CLIENTS, spec.keys)
    for get_fraction in (0.0, 1.0):
        load = replace(
            spec,
            get_fraction=get_fraction,
            pipeline=pipeline,
            clients=clients,
            rate_rps=None,
            think_us=0.0,
            popularity=Popularity(),
            threads=1,
        )
        writes = get_fraction == 0.0
        with LoadGenerator(
            load,
            address,
            cores=cores,
            requests=spec.keys,
            sequential=writes,
            longest_s=_LONGEST_S,
        ) as generator:
            generator.join()
            counters = generator.counters()
        errors, misses = counters["errors"], counters["misses"]
        if errors or misses:
            raise EngineError(
                f"loading {spec.keys} keys into {address}: {errors} commands failed and "
                f"{misses} keys were missing afterwards."
            )
    found = control.keys_held()
    if found != spec.keys:
        raise EngineError(f"loading {address}: the engine holds {found} keys, not {spec.keys}.")
