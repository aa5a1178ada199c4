"""What the committed table of public reports says."""

from pathlib import Path
from typing import Any

import pytest

from evidence.field.cases import Case, Range, load_cases
from evidence.field.page import holding, judged, page, verdict_of
from evidence.field.study import kept_rows


@pytest.fixture(autouse=True)
def _at_the_top(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)


def numbers(case: Case) -> list[Any]:
    """Every measured number of a case, in the order of its rows."""
    found: list[Any] = []
    for each in case.measured:
        for values in each.values.values():
            found += values if isinstance(values, list) else [values]
    return [value.model_dump() if isinstance(value, Range) else value for value in found]


def test_every_measured_number_has_a_row() -> None:
    rows = kept_rows()
    for case in load_cases():
        own = [row for row in rows if row["case"] == case.case and row["kind"] == "value"]
        assert [row["measured"] for row in own] == numbers(case), "run `make evidence STUDY=field`"
        assert case.about[1:] in page(load_cases(), rows)


def test_a_row_without_a_prediction_says_why_and_every_other_how_it_was_made() -> None:
    for row in kept_rows():
        assert bool(row.get("why")) == (row["predicted"] is None), row
        assert row["predicted"] is None or row["command"], row


def test_rates_of_unknown_machines_are_not_scored_but_their_ratios_are() -> None:
    machines = {case.case: case.machine for case in load_cases()}
    for row in kept_rows():
        if machines[row["case"]] != "unknown" or row["quantity"] != "throughput_rps":
            continue
        if row["predicted"] is not None:
            assert (verdict_of(row) == "not scored") == (row["kind"] == "value"), row


def test_the_page_counts_what_it_shows() -> None:
    rows = kept_rows()
    scored = judged(rows)
    text = page(load_cases(), rows)
    assert f"{len(scored)} are scored; {len(holding(scored))} of them hold" in text
    for word in ("outside", "beyond 10%", "differs"):
        count = sum(verdict_of(row) == word for row in rows)
        assert text.count(f" | {word} | ") == count
