"""How accurate the predictions are: live, on this host, and against published measurements.

    python -m evidence.accuracy.observed live --engine redis-server
    python -m evidence.accuracy.observed published
    python -m evidence.accuracy.observed write

`live` profiles this host, observes each engine, and keeps the bundles in compact form in
`evidence/bundles/`; `python -m evidence.counts.shipped` fits the shipped profiles to the points
with role fit and predicts all. `published` predicts every dataset in
`calibration/validate/datasets/` that a model predicts. They leave JSON files in `docs/accuracy/`;
`write` turns what is there into `docs/accuracy.md` and the tables of the README.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from forecache.calibration.observe.observe import observe
from forecache.calibration.validate.dataset import list_datasets, why_not_predicted
from forecache.calibration.validate.validate import validate
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.files import write_text_atomic
from forecache.models.engines.profile import load_engine
from forecache.sim.errors import ForecacheError

from ..counts.shipped import BUNDLES, compact, json_text
from .accuracy_page import write

EMBEDDED = "embedded"
"""Stands for the engine in the `engine` extra."""


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def live(bundles: Path, engines: list[str], design: str) -> None:
    """Observe each engine on this host; its compact bundle replaces the one that was there."""
    host = capture_host(progress=_say)
    for engine in engines:
        with tempfile.TemporaryDirectory() as scratch:
            bundle = observe(
                engine=None if engine == EMBEDDED else engine,
                design=design,
                out=Path(scratch) / "bundle",
                host=host,
                profiler="auto",
                progress=_say,
            )
            rules = load_engine(bundle.manifest.engine.name, bundle.manifest.engine.version)
            out = bundles / rules.id
            if out.exists():
                shutil.rmtree(out)
            compact(bundle.path, out)
            _say(f"wrote {out}")


def predicted_datasets() -> list[str]:
    """Ids of the shipped datasets that a model predicts: quantities it knows, engines it has."""
    return [dataset.id for dataset in list_datasets() if why_not_predicted(dataset) is None]


def published(out: Path, datasets: list[str]) -> None:
    """Predict datasets, fitting their calibration points only; one JSON file each."""
    for name in datasets:
        result = validate(name, progress=_say)
        path = out / f"published-{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomic(path, json_text(result))
        _say(f"wrote {path}")


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m evidence.accuracy.observed")
    parser.add_argument("what", choices=("live", "published", "write"))
    parser.add_argument("--out", type=Path, default=Path("docs/accuracy"))
    parser.add_argument("--engine", action="append", default=[], help="binary to observe as well")
    parser.add_argument("--design", default="full", choices=("quick", "full"))
    parser.add_argument("--bundles", type=Path, default=BUNDLES)
    parser.add_argument("--dataset", action="append", default=[], help="only this one; all if none")
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    given = parser.parse_args(arguments)
    try:
        if given.what == "live":
            live(given.bundles, [EMBEDDED, *given.engine], given.design)
        elif given.what == "published":
            published(given.out, given.dataset or predicted_datasets())
        else:
            write(given.out, given.readme)
    except ForecacheError as error:
        _say(f"accuracy: error: {error}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
