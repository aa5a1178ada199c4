"""`python -m evidence.validation DATASET`: predict it, and print every point with its error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from forecache.calibration.validate.comparison import label, varying
from forecache.output import to_json
from forecache.sim.errors import ForecacheError

from ..harness import say
from ..markdown import table
from . import validate
from .answer import DatasetValidation


def printed(answer: DatasetValidation) -> list[str]:
    """The points of each quantity, and the errors of those held out."""
    names = varying([point.given for point in answer.points]) or None
    lines = [answer.dataset.title, ""]
    lines += [f"fitted: {each.name} ×{each.factor:.4g}" for each in answer.fitted]
    for quantity in dict.fromkeys(name for point in answer.points for name in point.predicted):
        rows = []
        for point in answer.points:
            found = point.predicted.get(quantity)
            if found is not None:
                interval = f"{found.value:,.6g} ({found.low:,.6g} to {found.high:,.6g})"
                error = f"{point.relative_error[quantity]:+.1%}"
                seen = f"{point.observed[quantity]:,.10g}"
                rows.append([label(point.given, names), point.role, seen, interval, error])
        header = [quantity, "role", ">observed", ">predicted (95%)", ">error"]
        lines += [*table(header, rows), ""]
        if errors := answer.summary.get(quantity):
            lines.append(
                f"held out: {errors.n} points, median error {errors.median_ape:.1%}, worst "
                f"{errors.max_ape:.1%}, {errors.coverage:.0%} in their intervals"
            )
    return [*lines, *(f"note: {warning}" for warning in answer.warnings)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m evidence.validation", description=__doc__)
    parser.add_argument("dataset", help="id of a shipped dataset, or a file")
    parser.add_argument("--json", action="store_true", help="print all of it as JSON")
    given = parser.parse_args(arguments)
    try:
        answer = validate(given.dataset)
    except ForecacheError as error:
        say(f"evidence: error: {error}")
        return error.exit_code
    print(to_json(answer) if given.json else "\n".join(printed(answer)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
