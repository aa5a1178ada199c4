"""Committed pages and profiles are what the committed artefacts, and the code, say."""

import json
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from scipy.stats import binomtest

from evidence.counts import large_command_counts
from evidence.figures import accuracy_figures
from evidence.harness import Asked, Files
from evidence.live import (
    large_commands_check,
    large_commands_page,
    migration_check,
    sync_check,
)
from evidence.live.migration_live import Measured, Trial
from evidence.live.trials import inside_others, kept
from evidence.studies import STUDIES

NUMBERS = [each.name for each in fields(Measured) if each.name != "trial"]
PAGES = {study.pages: name for name, study in STUDIES.items() if study.pages is not None}


def differing(files: Files) -> list[str]:
    """Texts that aren't what is committed; a figure's bytes depend on the library that draws it."""
    return [
        str(path)
        for path, text in files.items()
        if isinstance(text, str) and path.read_text(encoding="utf-8") != text
    ]


@pytest.mark.parametrize("name", PAGES.values())
def test_a_page_says_what_its_artefact_does(
    name: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    # Of a figure it only matters here that it is there.
    monkeypatch.setattr(accuracy_figures, "_png", lambda _: b"")
    pages = STUDIES[name].pages
    assert pages is not None
    files = pages()
    assert files
    assert all(path.is_file() for path in files)
    assert differing(files) == [], "run `make pages`"


def test_shipped_work_of_large_commands_is_that_of_counts_and_measured_commands(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    files = large_command_counts.profiles(Asked())
    assert len(files) == 3
    assert differing(files) == [], "run `make evidence STUDY=large-command-work`"


def test_intervals_hold_commands_moves_and_syncs_that_nothing_was_fitted_to(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    commands = large_commands_check.kept()
    numbers = 2 * sum(len(of["rows"]) for of in commands)
    inside = sum(large_commands_page.inside_others(of, commands) for of in commands)
    assert inside < numbers
    assert binomtest(inside, numbers, 0.95).pvalue > 0.05
    for name, each in kept(migration_check.ARTEFACT).items():
        errors = migration_check.duration_errors(each)
        assert inside_others(errors) >= len(errors) - 1, name
    for name, each in kept(sync_check.ARTEFACT).items():
        assert all(sync_check.inside_others(name, each))
    published = json.loads(large_commands_page.PUBLISHED.read_text(encoding="utf-8"))
    for point in published["points"]:
        predicted = point["predicted"]["lasts_s"]
        assert predicted["low"] <= point["observed"]["lasts_s"] <= predicted["high"]


def test_shipped_work_of_moves_is_that_of_the_measured_trials(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    files = migration_check.profiles(Asked())
    assert len(files) == 2
    assert differing(files) == [], "run `make evidence STUDY=migration-work`"
    for each in kept(migration_check.ARTEFACT).values():
        seen = [
            Measured(trial=Trial(**row["trial"]), **{name: row[name] for name in NUMBERS})
            for row in each["trials"]
            if row["role"] == "calibration"
        ]
        work, _ = migration_check.fit(seen)
        assert asdict(work) == pytest.approx(each["work"])
