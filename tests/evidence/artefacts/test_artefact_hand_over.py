"""What handing over takes in the shipped profiles is what was counted."""

from pathlib import Path

import pytest

from evidence.counts.hand_over_counts import FOLDER, read_counts
from evidence.counts.hand_over_work import RULES, SOURCE, leaves
from forecache.models.engines.profile import load_engine

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("profile_id", RULES)
def test_shipped_numbers_are_those_counted(profile_id: str) -> None:
    engine, rules = RULES[profile_id]
    shipped = load_engine(profile_id).work
    for name, leaf in leaves(rules, read_counts(ROOT / FOLDER / f"{engine}.json")).items():
        assert shipped[name].source == SOURCE
        assert (shipped[name].low, shipped[name].value) == (leaf.low, leaf.value), name
