"""Populations of keys that were measured in live servers."""

from pathlib import Path

from evidence.accuracy.memory_page import memory_section
from evidence.live.footprint_check import CLUSTER, POPULATIONS


def test_the_page_has_a_row_for_every_population(checkout: Path, tmp_path: Path) -> None:
    lines = memory_section(checkout / "docs" / "accuracy")
    rows = [line for line in lines if line.startswith(("| string: ", "| set: ", "| hash: "))]
    assert len(rows) == sum(p.type in ("string", "set", "hash") for p in (*POPULATIONS, *CLUSTER))
    assert memory_section(tmp_path) == []
