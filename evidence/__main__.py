"""Lists the studies, runs them, or writes their pages again: `python -m evidence --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from forecache.sim.errors import ForecacheError, InputError

from .harness import Asked, Study, missing, run, say, write_pages
from .studies import STUDIES


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m evidence",
        description="Measures how accurate this project is, and writes the pages that say so."
        " Without a study: lists them.",
    )
    parser.add_argument("studies", nargs="*", metavar="STUDY", help="studies to run, in this order")
    parser.add_argument("--all", action="store_true", help="run all that can run here")
    parser.add_argument(
        "--pages", action="store_true", help="measure nothing, write the pages: of these or of all"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PART",
        help="limit a study to this engine (a name or a path), dataset or part of it",
    )
    given = parser.parse_args(arguments)
    try:
        chosen = [_named(name) for name in given.studies]
        if given.pages:
            write_pages(chosen or list(STUDIES.values()))
        elif given.all:
            _run_all()
        elif not chosen:
            print("\n".join(listed(list(STUDIES.values()))))
        else:
            for study in chosen:
                run(study, Asked(only=tuple(given.only)))
    except ForecacheError as error:
        say(f"evidence: error: {error}")
        return error.exit_code
    return 0


def _named(name: str) -> Study:
    try:
        return STUDIES[name]
    except KeyError:
        raise InputError(
            f"found study {name!r}; valid is one of {', '.join(sorted(STUDIES))}."
        ) from None


def _run_all() -> None:
    """Run what this machine can run, say what it can't."""
    for study in STUDIES.values():
        if lacking := missing(study):
            say(f"{study.name}: left out, needs {', '.join(lacking)}")
        else:
            say(f"{study.name}: {study.about}")
            run(study, Asked())


def listed(studies: Sequence[Study]) -> list[str]:
    """Three lines for each study: what it measures, what it takes, where results are."""
    lines = []
    for study in studies:
        needs = ", ".join(study.needs) or "nothing besides"
        where = " → ".join(filter(None, [study.artefact, study.page]))
        lines += [
            f"{study.name}: {study.about}",
            f"    {study.duration}; needs {needs}",
            f"    {where}",
        ]
    return lines


if __name__ == "__main__":
    sys.exit(main())
