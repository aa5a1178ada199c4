"""How accurate the predictions are: live, on this host, and against published measurements.

`observations` profiles this host, observes each engine, and keeps the bundles in compact form in
`evidence/bundles/`; `counts/shipped.py` fits the shipped profiles to the points with role fit and
predicts all. `published` predicts every dataset in `calibration/validate/datasets/` that a model
predicts.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from forecache.calibration.observe.observe import observe
from forecache.calibration.validate.dataset import list_datasets, why_not_predicted
from forecache.calibration.validate.validate import validate
from forecache.hwprofiles.capture import capture_host
from forecache.models.engines.profile import load_engine

from ..counts.shipped import BUNDLES, compact, json_text
from ..harness import EMBEDDED, Asked, Files
from ..validation.counters import with_counters

ACCURACY = Path("docs/accuracy")
ENGINES = (EMBEDDED, "redis-server", "valkey-server")
DESIGN = "full"


def observations(asked: Asked) -> Files:
    """Observe each engine on this host; its compact bundle replaces the one that was there."""
    host = capture_host(progress=asked.progress)
    for engine in asked.engines(ENGINES):
        with tempfile.TemporaryDirectory() as scratch:
            bundle = observe(
                engine=None if engine == EMBEDDED else engine,
                design=DESIGN,
                out=Path(scratch) / "bundle",
                host=host,
                profiler="auto",
                progress=asked.progress,
            )
            rules = load_engine(bundle.manifest.engine.name, bundle.manifest.engine.version)
            out = BUNDLES / rules.id
            if out.exists():
                shutil.rmtree(out)
            compact(bundle.path, out)
            asked.progress(f"wrote {out}")
    return {}


def predicted_datasets() -> list[str]:
    """Ids of the shipped datasets that a model predicts: quantities it knows, engines it has."""
    return [dataset.id for dataset in list_datasets() if why_not_predicted(dataset) is None]


def published(asked: Asked) -> Files:
    """Predict datasets, fitting their calibration points only; one file each."""
    return {
        ACCURACY / f"published-{name}.json": json_text(
            with_counters(validate(name, progress=asked.progress))
        )
        for name in asked.of(predicted_datasets())
    }
