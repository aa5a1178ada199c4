"""A host as an engine finds it: what its kernel and cores take beyond the micro-benchmarks.

A capture measures calls in loops of their own, and a server pays more for them on some hypervisors.
Any engine whose work is known from other hosts shows by how much: what differs from there belongs
to the host, and so to every other engine on it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from forecache.hwprofiles.schema import HostProfile

from ..bundle.bundle import Bundle
from ..fit.fit import fit_bundle
from ..fit.latency_fit import fit_wake_latency
from ..fit.prior import known_of
from .observe import observe

Progress = Callable[[str], None]


def anchor_host(
    host: HostProfile, *, engine: str | None = None, progress: Progress | None = None
) -> HostProfile:
    """Drive an engine on a profiled host for about a minute; the host as it was found.

    Parameters
    ----------
    engine
        Path or name on PATH of a server; None takes the embedded Valkey.

    Raises
    ------
    EngineError
        When the engine doesn't start, or stops answering.
    InputError
        When what was observed can't be fitted.
    """
    with tempfile.TemporaryDirectory(prefix="forecache-") as folder:
        bundle = observe(
            engine=engine, design="quick", out=Path(folder) / "anchor", host=host, progress=progress
        )
        return anchored_by(bundle, progress=progress)


def anchored_by(bundle: Bundle, *, progress: Progress | None = None) -> HostProfile:
    """The host of a bundle as its engine found it.

    Raises
    ------
    InputError
        The bundle has no host profile, or too few points.
    """
    fitted = fit_bundle(bundle, known=known_of(bundle), progress=progress)
    found = fit_wake_latency(fitted, progress=progress).host
    engine = bundle.manifest.engine
    title = f"forecache profile --anchor, {engine.name} {engine.version} driven on this host"
    source = found.sources["bundle"].model_copy(
        update={"title": title, "accessed": bundle.manifest.created[:10]}
    )
    notes = [f"while an engine was driven: {warning}" for warning in bundle.manifest.warnings]
    update = {"sources": {**found.sources, "bundle": source}, "notes": [*found.notes, *notes]}
    return found.model_copy(update=update)
