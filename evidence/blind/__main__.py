"""A command for each step of a blind round: `python -m evidence.blind --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from forecache.sim.errors import ForecacheError

from ..harness import say
from .rounds import predict, score, seal


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m evidence.blind",
        description="Blind rounds: predictions committed before measurements are opened.",
    )
    steps = parser.add_subparsers(dest="step", required=True)
    sealing = steps.add_parser("seal", help="write what a dataset asks, without what was measured")
    sealing.add_argument("measurements", type=Path, help="a dataset in the project's format")
    sealing.add_argument("--note", default="", help="what the record should say of the round")
    predicting = steps.add_parser("predict", help="predict the questions of a round")
    predicting.add_argument("round", help="id of the dataset")
    predicting.add_argument("--seed", type=int, default=1)
    scoring = steps.add_parser("score", help="compare with the measurements, once")
    scoring.add_argument("round", help="id of the dataset")
    scoring.add_argument("measurements", type=Path)
    given = parser.parse_args(arguments)
    try:
        if given.step == "seal":
            wrote = seal(given.measurements, note=given.note)
        elif given.step == "predict":
            wrote = predict(given.round, seed=given.seed, progress=say)
            say("commit it, with the record, before anybody opens the measurements")
        else:
            wrote = score(given.round, given.measurements)
            say("commit it, with the record: these are development data from now on")
    except ForecacheError as error:
        say(f"evidence: error: {error}")
        return error.exit_code
    say(f"wrote {wrote}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
