"""`python -m evidence.gate`: predicts again and exits with 1 where a partition has worsened."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from forecache.sim.errors import ForecacheError

from ..harness import say
from .compare import judge
from .history import ARTEFACT, HISTORY, committed_histories, history_problems
from .recompute import from_lines, recompute

_SHOWN = 8
"""Partitions that are listed when none has worsened: those that came closest."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m evidence.gate",
        description="Predicts committed measurements again and fails where the median error of a"
        " partition has worsened against docs/accuracy/gate.jsonl.",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="SOURCE", help="a bundle or dataset"
    )
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    try:
        now = recompute(given.only, progress=say)
    except ForecacheError as error:
        say(f"gate: error: {error}")
        return error.exit_code
    artefact = ARTEFACT.read_bytes()
    text = HISTORY.read_text(encoding="utf-8")
    before = from_lines(artefact.decode())
    if given.only:
        before = [each for each in before if each.place.source in given.only]
    judgement = judge(before, now)
    closest = sorted(judgement.changes, key=lambda change: change.excess[0], reverse=True)
    print(f"{len(now)} numbers in {len(judgement.changes)} partitions,", end=" ")
    print(f"{time.monotonic() - begun:.0f} s; the closest to failing:")
    for change in closest[:_SHOWN]:
        print(f"  {change.words()}")
    failures = history_problems(text, artefact, committed_histories()) + judgement.failures
    for failure in failures:
        print(f"FAILED {failure}")
    if failures:
        print(
            "Where a change is meant to do this, replace the reference and say why:\n"
            '  make evidence STUDY=gate REASON="..."'
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
