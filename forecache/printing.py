"""What the command line does with an answer: files, text or JSON, and the exit code."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from forecache.output import to_json
from forecache.sim.errors import OutsideError, UnfitError

Given = Mapping[str, Any]
"""What was typed, by the name of the parameter."""


def print_answer(verb: str, answer: Any, *, given: Given, before: Mapping[Path, Any]) -> None:
    """Write the files that the command line makes of an answer, name all, and print it.

    Parameters
    ----------
    before
        States of files before the verb ran (`file_states`).
    """
    text = ""
    if verb == "calibrate":
        engine, answer = answer
        text = _yaml(engine.model_dump(mode="json", exclude_defaults=True))
    elif verb == "profile":
        text = _profile_text(answer)
    if text and given["out"] is not None:
        from forecache.hwprofiles.files import write_text_atomic

        write_text_atomic(given["out"], text)
    _write_points(answer, given)
    _name_files(before)
    if given["as_json"]:
        click.echo(to_json(_printed(answer)))
    elif given.get("csv"):
        click.echo(_points_as_csv(answer), nl=False)
    elif verb == "profile" and given["out"] is None:
        click.echo(text, nl=False)
    else:
        _print_text(verb, answer, given)


def _write_points(answer: Any, given: Given) -> None:
    """Write the folders of --figures and --data; `report` has done so itself."""
    if "csv" not in given or (given["figures"] is None and given["data"] is None):
        return
    from forecache.reports.files import write_data, write_figures

    if given["figures"] is not None and not write_figures(answer, given["figures"]):
        click.echo("this answer has no figure", err=True)
    if given["data"] is not None:
        write_data(answer, given["data"])


def _points_as_csv(answer: Any) -> str:
    """The first table of an answer: its points, where it has them."""
    from forecache.reports.builders import document
    from forecache.reports.files import csv_text

    return csv_text(next(iter(document(answer).tables.values()))())


def _printed(answer: Any) -> Any:
    """What is printed as JSON."""
    if type(answer).__name__ != "Bundle":
        return answer
    from forecache.calibration.bundle.bundle import bundle_summary

    return bundle_summary(answer)


def _print_text(verb: str, answer: Any, given: Given) -> None:
    from forecache.reports import terminal

    kind = type(answer).__name__
    if kind == "SweptPoints":
        _print_swept(answer, given["out"])
    elif kind == "Diagnosis" and not given["whole"]:
        from forecache.reports.builders.machine import diagnosis_in_lines

        terminal.print_document(diagnosis_in_lines(answer), terminal.console(pipe_columns=80))
    elif verb == "catalog":
        from forecache.reports.builders import catalogue

        out = terminal.console(pipe_columns=terminal.LISTING_COLUMNS)
        if given["name"] is not None:
            terminal.print_document(catalogue.entry(answer, wide=out.width >= 120), out)
        elif "hosts" in answer:
            terminal.print_document(catalogue.listing(answer), out)
        else:
            terminal.print_document(catalogue.instances(answer["instances"]), out)
    else:
        columns = {"pipe_columns": 80} if kind == "Diagnosis" else {}
        terminal.print_answer(answer, terminal.console(**columns))
    if kind == "Study" and answer.report:
        click.echo(f"wrote {answer.report}", err=True)


def _print_swept(answer: Any, out: Path) -> None:
    from forecache.sim.effort import duration_words

    files = f"{answer.files:,} file{'s' if answer.files != 1 else ''}"
    click.echo(f"{out}: {answer.points:,} points in {files}, {len(answer.columns)} columns")
    if answer.answered:
        rate = answer.answered / max(answer.seconds, 1e-9)
        took = duration_words(answer.seconds)
        click.echo(f"answered {answer.answered:,} in {took}, {rate:,.3g} a second")


def print_address(address: str, *, as_json: bool) -> None:
    """Print the address of the page of `explore`."""
    click.echo(to_json({"address": address}) if as_json else address)
    if not as_json:
        click.echo("Open this address in a browser; Ctrl-C ends it.", err=True)


# --- files ---------------------------------------------------------------------------------------


def file_states(paths: Sequence[Path]) -> dict[Path, tuple[int, int] | None]:
    """Inode and time of change in ns of each file or folder that is there."""
    states: dict[Path, tuple[int, int] | None] = dict.fromkeys(paths)
    for path in paths:
        if path.exists():
            found = path.stat()
            states[path] = found.st_ino, found.st_mtime_ns
    return states


def _name_files(before: Mapping[Path, tuple[int, int] | None]) -> None:
    """Say on standard error which files were written since, or removed."""
    for path, state in file_states(list(before)).items():
        if state is None and before[path] is not None:
            click.echo(f"removed {path}, which described an earlier time", err=True)
        elif state != before[path]:
            click.echo(f"wrote {path}", err=True)


def _yaml(content: Any) -> str:
    from forecache.hwprofiles.files import dump_yaml

    return dump_yaml(content)


def _profile_text(answer: Any) -> str:
    """The profile of a host or of a tool as a file has it."""
    if type(answer).__name__ == "HostProfile":
        text: str = answer.to_yaml()
        return text
    return _yaml(answer.profile.model_dump(mode="json", exclude_defaults=True))


# --- exit codes ----------------------------------------------------------------------------------

_MOST_NAMED = 2
"""Unmet requirements in one message; the answer itself has all."""


def refuse_unmet(answer: Any, given: Given) -> None:
    """End with exit code 6 or 7 if an answer says that something does not hold.

    Raises
    ------
    OutsideError
        A measurement is outside the predicted interval, or of something else than the scenario.
    UnfitError
        A requirement is not met. Of settings that are only compared with one to run, that one
        counts.
    """
    kind = type(answer).__name__
    file, phrases = given.get("scenario"), _unmet_phrases(answer)
    if kind == "Recommended":
        file = given["scenario"][0]
    elif kind == "NodeComparison":
        sides = ((given["before"], answer.first), (given["after"], answer.second))
        file = " and ".join(str(name) for name, side in sides if _unmet_of([side.point]))
    elif kind == "CheckAnswer" and not answer.holds:
        raise OutsideError(f"{file}: found {_outside_phrase(answer)}.")
    if phrases:
        more = len(phrases) - _MOST_NAMED
        named = [*phrases[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])]
        raise UnfitError(f"{file}: not met: {'; '.join(named)}.")


def _unmet_phrases(answer: Any) -> Sequence[str]:
    """What an answer says that does not hold, a phrase each."""
    kind = type(answer).__name__
    if kind == "MemoryAnswer":
        rooms = [point.room for point in answer.points if point.room is not None]
        return list(dict.fromkeys(room.shortfall for room in rooms if room.shortfall is not None))
    if kind == "SweptPoints" and answer.unmet:
        return [f"{answer.unmet:,} of {answer.points:,} points (columns verdict and unmet)"]
    if kind == "CheckAnswer":
        return [each.sentence for each in answer.unmet]
    if kind == "NodeComparison":
        return [*_unmet_of([answer.first.point]), *_unmet_of([answer.second.point])]
    if kind == "Recommended":
        from forecache.reports.text.points import chosen_point, unmet_of_chosen

        return [e.sentence for e in unmet_of_chosen(answer.recommendation, chosen_point(answer))]
    if kind == "Explained" and answer.shown.recommended:
        return _unmet_of([answer.points[answer.shown.point]])
    return _unmet_of(answer.points) if kind in ("Simulated", "Explained") else []


def _unmet_of(points: Sequence[Any]) -> Sequence[str]:
    from forecache.reports.text.points import unmet_phrases

    return unmet_phrases(points)


def _outside_phrase(answer: Any) -> str:
    """Which quantities are outside the interval, and which conditions were others."""
    outside = ", ".join(row.quantity for row in answer.outside)
    others = ", ".join(each.field for each in answer.differs)
    phrases = (
        f"{outside} outside the predicted interval" if outside else "",
        f"another {others} than the scenario’s" if others else "",
    )
    return " and ".join(phrase for phrase in phrases if phrase)
