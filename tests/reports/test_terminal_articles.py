"""Claims on a terminal: every one in words, with both numbers, at the width there is."""

import io

import pytest
from rich.console import Console

from forecache.calibration.validate.articles import judged_claims
from forecache.reports.terminal.articles import print_articles
from forecache.reports.text.claims import amount, claimed

RESULT = judged_claims()


@pytest.mark.parametrize("width", [50, 80])
def test_every_claim_is_told_in_words_with_what_was_claimed_and_predicted(width: int) -> None:
    out = io.StringIO()
    print_articles(RESULT, Console(file=out, width=width))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    told = " ".join(" ".join(lines).split())
    compared = [row for row in RESULT.rows if row.role in ("prediction", "arithmetic")]
    assert len(compared) > 60
    for row in compared:
        assert " ".join(row.statement.split()) in told, row.id
        both = f"claimed {claimed(row)}; predicted {amount(row.predicted)}"
        assert both.replace(" %", "%") in told, row.id
        assert f"): {row.verdict}" in told
