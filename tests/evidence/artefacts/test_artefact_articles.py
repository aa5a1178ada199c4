"""What the committed table of the articles' claims says."""

from evidence.articles.judged import judged_claims
from evidence.articles.page import page
from evidence.articles.table import load_claims
from evidence.articles.words import named


def test_every_claim_was_judged() -> None:
    names = [(row.id, row.part or None) for row in judged_claims().rows]
    assert names == [(claim.id, claim.part) for claim in load_claims().claims]


def test_predictions_alone_are_counted_and_those_that_were_seen_are_told_apart() -> None:
    result = judged_claims()
    predictions = [row for row in result.rows if row.role == "prediction"]
    held = sum(row.verdict == "holds" for row in predictions)
    text = page(result)
    assert f"Of {len(predictions)} predictions {held} hold" in text
    for row in predictions:
        line = next(each for each in text.splitlines() if each.startswith(f"| {named(row)} |"))
        assert ("*seen*" in line) == bool(row.changed)


def test_what_misses_says_why_and_nothing_else_does() -> None:
    result = judged_claims()
    for row in result.rows:
        assert bool(row.gap) == (row.verdict == "misses"), row.id
