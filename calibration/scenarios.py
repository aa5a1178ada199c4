"""Observed points as scenarios of the model, so that the same simulation predicts them."""

from __future__ import annotations

from forecache.models.scenario import (
    HotSet,
    HotSetPopularity,
    LoadGenerator,
    Mix,
    Scenario,
    WeightedSizes,
    Workload,
    Zipf,
)

from .points import Given


def scenario_of(given: Given, *, engine: str, engine_version: str) -> Scenario:
    """The scenario of an observed point: engine and load generator on one host."""
    popularity: str | Zipf | HotSetPopularity = "uniform"
    if given.popularity.kind == "zipf":
        popularity = Zipf(zipf=given.popularity.exponent)
    elif given.popularity.kind == "hot_set":
        popularity = HotSetPopularity(
            hot_set=HotSet(keys=given.popularity.hot_keys_fraction,
                requests=given.popularity.hot_requests_fraction,)
        )
    value: int | WeightedSizes = int(given.value_bytes)
    if given.value_sizes is not None:
        value = WeightedSizes(
            values=[size for size, _ in given.value_sizes],
            weights=[weight for _, weight in given.value_sizes],
        )
    return Scenario(
        host=None,
        engine=engine,
        engine_version=engine_version,
        transport="tcp" if given.transport == "tcp" else "unix_socket",
        io_threads=given.io_threads,
        workload=Workload(
            arrival=given.arrival,
            clients=given.clients,
            pipeline=given.pipeline,
            think_us=given.think_us,
            rate_rps=given.rate_rps,
            mix=Mix(get=given.get_fraction, set=1.0 - given.get_fraction),
            keys=given.keys,
            key_bytes=given.key_bytes,
            value_bytes=value,
            popularity=popularity,  # type: ignore[arg-type]
        ),
        load_generator=LoadGenerator(
            tool="forecache", threads=given.generator_threads, same_host=True
        ),
    )
