"""Take in what somebody else measured: `python -m evidence.contributions FILE`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from forecache.sim.errors import ForecacheError

from ..harness import say, write
from .page import pages
from .take_in import received, summary, take_in


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m evidence.contributions",
        description="Checks what `forecache observe --contributor` wrote on another machine,"
        " predicts it before a measured number is read, and keeps and shows both.",
    )
    parser.add_argument("file", type=Path, help="the .tar.gz file")
    given = parser.parse_args(arguments)
    try:
        folder = take_in(given.file, progress=say)
        write(pages())
    except ForecacheError as error:
        say(f"evidence: error: {error}")
        return error.exit_code
    [found] = [each for each in received() if each.folder == folder]
    print(f"took in {folder}, by {found.about['contributor']}: {len(found.points)} points")
    for name, errors in summary(found.points).items():
        inside = f", {errors['inside']:.0%} of windows inside" if "inside" in errors else ""
        print(
            f"{name}: median error {errors['median']:.1%}, worst {errors['worst']:.0%}, repeats"
            f" {errors['repeat']:.1%}{inside}"
        )
    for doubt in found.about["doubts"]:
        print(f"doubt: {doubt}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
