"""An engine whose work is known, and what `observe` would have written had it met that engine.

The known engine is simulated, so that a fit to its observations is also held to what the simulation
charges.
"""

import math
from functools import cache
from pathlib import Path
from typing import Any

from forecache.calibration.bundle.bundle import (
    Engine,
    Manifest,
    Method,
    ObservedMachine,
    write_bundle,
)
from forecache.calibration.bundle.points import Conditions, ObservedPoint, Repetition
from forecache.calibration.bundle.profiles import Profile
from forecache.calibration.fit.prior import engine_with_priors
from forecache.calibration.fit.work_model import scenario_of
from forecache.hwprofiles import load_host
from forecache.hwprofiles.quantity import Quantity
from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.commands import command_kinds
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import EngineProfile
from forecache.models.node.simulate import NodeResult
from forecache.models.prediction.simulation import run
from forecache.models.prediction.system import System
from forecache.models.step_times.wire import segment_bytes

PRIOR = engine_with_priors("valkey", "9.1")

# What the known engine's work is, in multiples of the prior's.
TRUE = {
    "loop_instructions": 1.5,
    "read_instructions": 1.4,
    "write_instructions": 1.4,
    "parse_instructions": 0.8,
    "get_instructions": 0.8,
    "set_instructions": 0.8,
    "value_instructions": 1.6,
    "get_instructions_per_byte": 1.5,
    "kernel_scale": 1.15,
    "wake_scale": 0.9,
    "touch_scale": 1.2,
    "stream_scale": 1.4,
}

CATALOGUE_HOST = load_host("graviton3-c7g.4xlarge")
TRUE_IPC = 0.8
TRUE_FILLS = 2.5
"""What the host's rate of instructions and its neighbours are, in multiples of its profile's."""


def _host(*, fills_per_us: float, user_ipc: float) -> HostProfile:
    def leaf(value: float, unit: str) -> Quantity:
        source = next(iter(CATALOGUE_HOST.sources))
        return Quantity(
            value=value, low=value / 2, high=value * 2, unit=unit, kind="measured", source=source,
            method="made up",
        )  # fmt: skip

    leaves = {
        "l3_fills_per_us": leaf(fills_per_us, "1/us"),
        "user_ipc": leaf(user_ipc, "1/cycle"),
        "posterior": None,
    }
    return CATALOGUE_HOST.model_copy(update=leaves)


_IPC = CATALOGUE_HOST.user_ipc.best
HOST = _host(fills_per_us=10.0, user_ipc=_IPC)
"""As its profile says."""
TRUE_HOST = _host(fills_per_us=10.0 * TRUE_FILLS, user_ipc=_IPC * TRUE_IPC)
"""As the engine finds it."""


def known_engine() -> EngineProfile:
    """The prior with its work multiplied by `TRUE`, without a doubt."""
    work = dict(PRIOR.work)
    for name, factor in TRUE.items():
        value = work[name].best * factor
        work[name] = work[name].model_copy(update={"value": value, "low": value, "high": value})
    return PRIOR.model_copy(update={"work": work})


def simulated(
    given: Conditions, engine: EngineProfile, host: HostProfile = TRUE_HOST, seed: int = 1
) -> NodeResult:
    """A run of a point, on the host as it was while it was observed."""
    system = System(host, engine, load_generator("forecache"))
    scenario = scenario_of(given, engine="valkey", engine_version="9.1")
    return run(system.inputs(scenario), requests=12_000, seed=seed)


@cache
def _known(given: Conditions) -> NodeResult:
    return simulated(given, known_engine())


def segments_per_request(given: Conditions, writes_per_request: float) -> float:
    """Pieces that a request's share of the replies goes through the stack in."""
    scenario = scenario_of(given, engine="valkey", engine_version="9.1")
    limit, segment = PRIOR.write_limit_bytes, segment_bytes(scenario, PRIOR)
    reply = sum(kind.share * kind.reply_bytes for kind in command_kinds(scenario))
    size = reply / writes_per_request
    calls = max(1, math.ceil(size / limit))
    last = size - (calls - 1) * limit
    pieces = (calls - 1) * math.ceil(limit / segment) + max(1, math.ceil(last / segment))
    return pieces * writes_per_request


def observed(
    given: Conditions, *, noise: float = 0.0, result: NodeResult | None = None
) -> ObservedPoint:
    """A point as `observe` would write it; `noise` is the relative error of its CPU time.

    Of the known engine, or of a run.
    """
    result = result or _known(given)
    counters = result.counters

    def per_request(name: str) -> float:
        return counters[name] / result.completions

    repetition = Repetition(
        started_s=0.0,
        requests=result.completions,
        duration_s=result.window_s,
        throughput_rps=result.throughput_rps,
        main_thread_cpu_ns_per_request=result.server_cpu_us_per_request * 1000 * (1.0 + noise),
        main_thread_utilisation=result.main_thread_utilisation,
        main_voluntary_switches_per_request=per_request("blocks"),
        main_involuntary_switches_per_request=0.0,
        event_loops_per_request=per_request("loops"),
        reads_per_request=per_request("reads"),
        writes_per_request=per_request("writes"),
        generator_cpu_ns_per_request=result.generator_cpu_us_per_request * 1000,
        generator_utilisation=result.load_generator_utilisation,
        generator_loops_per_request=per_request("generator_polls"),
        generator_events_per_request=1.0 / given.pipeline,
        generator_reads_per_request=segments_per_request(given, per_request("writes")),
        generator_sends_per_request=1.0 / given.pipeline,
        generator_voluntary_switches_per_request=per_request("paid_wakes"),
    )
    return ObservedPoint(given=given, repetitions=[repetition])


def plain(**change: Any) -> ObservedPoint:
    """A point with made-up numbers, for what never gets as far as a good fit."""
    flags = change.pop("flags", [])
    repetition = Repetition(
        started_s=0.0,
        requests=1000,
        duration_s=0.1,
        throughput_rps=1e4,
        main_thread_cpu_ns_per_request=4000.0,
        main_thread_utilisation=0.9,
        main_voluntary_switches_per_request=0.0,
        main_involuntary_switches_per_request=0.0,
        generator_cpu_ns_per_request=2000.0,
        generator_utilisation=0.5,
        flags=flags,
    )
    return ObservedPoint(given=Conditions(**{"command": "get", **change}), repetitions=[repetition])


def written(
    folder: Path,
    points: list[ObservedPoint],
    *,
    host: HostProfile | None = HOST,
    profiles: tuple[Profile, ...] = (),
    **engine: str,
) -> Path:
    """A bundle of these points."""
    folder.mkdir()
    described = {"name": "valkey", "version": "9.1.2", "path": "valkey-server", "sha256": "0" * 64}
    manifest = Manifest(
        created="2026-11-20T12:00:00+00:00",
        forecache_version="0.1.0",
        elapsed_s=1.0,
        engine=Engine(**{**described, **engine}),
        machine=ObservedMachine(
            cpu_model="simulated",
            kernel="none",
            architecture="aarch64",
            cores_available=2,
            main_thread_core=0,
            io_thread_cores=[],
            generator_cores=[1],
        ),
        method=Method(
            tool="forecache",
            design="quick",
            repetitions=1,
            warm_up_s=0.1,
            window_s=0.5,
            seed=1,
            generator_receive_bytes=65536,
        ),
        points=len(points),
        profiles=len(profiles),
    )
    write_bundle(
        folder,
        manifest=manifest,
        points=points,
        info=[""] * len(points),
        configs={"config.yaml": {"io-threads": "1"}},
        host=host,
        profiles=profiles,
    )
    return folder
