"""Engine profiles for tests of what does not depend on how the shipped ones were observed."""

from typing import Any

from forecache.models.engines.profile import EngineProfile, Observed


def unobserved(engine: EngineProfile) -> EngineProfile:
    """The profile as if it had not been observed: neither a fit nor an error of its own."""
    nothing = ("observed", "reuse", "covariance", "discrepancy", "memory_discrepancy")
    return engine.model_copy(update=dict.fromkeys(nothing))


def prior(engine: EngineProfile) -> EngineProfile:
    """An unobserved profile with wide ranges: widest of instructions, which were not counted."""
    work = {}
    for name, leaf in engine.work.items():
        factor = 2.5 if "_instructions" in name else 1.35
        ends = {"low": leaf.best / factor, "high": leaf.best * factor}
        work[name] = leaf.model_copy(update=ends)
    return unobserved(engine).model_copy(update={"work": work})


def observed_on(host: str, engine: EngineProfile, **fields: Any) -> EngineProfile:
    """The profile as if it had been observed on a host, with other fields replaced."""
    observed = Observed(
        version=f"{engine.version}.1", build="test", host=host, date="2026-11-20", depth="clock"
    )
    return engine.model_copy(update={"observed": observed, **fields})
