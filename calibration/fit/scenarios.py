"""Observed points as scenarios of the model, so that the same simulation predicts them."""

from __future__ import annotations

from typing import Any

from forecache.hwprofiles.files import parse
from forecache.models.scenario.schema import Scenario

from ..bundle.points import Conditions


def scenario_of(
    given: Conditions, *, engine: str, engine_version: str, tool: str = "forecache"
) -> Scenario:
    """The scenario of an observed point: engine and load generator on one host.

    Raises
    ------
    InputError
        The point has conditions that the model doesn't know, such as an open loop of pipelines.
    """
    popularity: Any = "uniform"
    if given.popularity.kind == "zipf":
        popularity = {"zipf": given.popularity.exponent}
    elif given.popularity.kind == "hot_set":
        popularity = {
            "hot_set": {
                "keys": given.popularity.hot_keys_fraction,
                "requests": given.popularity.hot_requests_fraction,
            }
        }
    value: Any = int(given.value_bytes)
    if given.value_sizes is not None:
        sizes, weights = zip(*given.value_sizes, strict=True)
        value = {"values": list(sizes), "weights": list(weights)}
    data = {
        "host": None,
        "engine": engine,
        "engine_version": engine_version,
        "transport": "tcp" if given.transport == "tcp" else "unix_socket",
        "io_threads": given.io_threads,
        "workload": {
            "arrival": given.arrival,
            "clients": given.clients,
            "pipeline": given.pipeline,
            "think_us": given.think_us,
            "rate_rps": given.rate_rps,
            "mix": {"get": given.get_fraction, "set": 1.0 - given.get_fraction},
            "keys": given.keys,
            "key_bytes": given.key_bytes,
            "value_bytes": value,
            "popularity": popularity,
        },
        "load_generator": {
            "tool": tool,
            "threads": given.generator_threads,
            "same_host": True,
        },
    }
    return parse(Scenario, data, file=f"observed point {given.label()}")
