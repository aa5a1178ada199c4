"""The lines of a configuration file that make an engine run as predicted."""

from __future__ import annotations

from ..engines.profile import EngineProfile
from ..scenario.schema import Scenario
from ..step_times.forking import do_reads


def configuration_file(engine: EngineProfile) -> str:
    """The file that holds the settings, or a name for settings that users cannot change."""
    own = "valkey.conf" if engine.engine == "valkey" else "redis.conf"
    return engine.threading.configuration_file or own


def configuration(scenario: Scenario, engine: EngineProfile) -> str:
    """Its text; empty where the engine has no such settings."""
    policy = engine.threading
    return policy.configuration.format(
        io_threads=scenario.io_threads,
        settings="".join(f"{line}\n" for line in _settings(scenario, engine)),
        tls=policy.tls_configuration if scenario.tls is not None else "",
    )


def _settings(scenario: Scenario, engine: EngineProfile) -> list[str]:
    """Lines of a configuration file for settings that differ from the engine's own."""
    lines = []
    if scenario.io_threads > 1 and "events_per_io_thread" in engine.threading.settings:
        if engine.version.startswith("8.0"):
            lines.append("io-threads-do-reads yes")
        events = scenario.events_per_io_thread
        if events is not None and events != engine.events_per_io_thread:
            lines.append(f"events-per-io-thread {events}")
    if do_reads(scenario, engine) and scenario.io_threads > 1:
        lines.append("io-threads-do-reads yes")
    batch = scenario.prefetch_batch
    if engine.prefetch_batch > 0 and batch is not None and batch != engine.prefetch_batch:
        lines.append(f"prefetch-batch-max-size {batch}")
    return lines
