"""What the package takes two predictions to share is what the committed study found."""

import json
from pathlib import Path

from evidence.accuracy.ratios import ARTEFACT
from forecache.models.advice.paired import UNSHARED


def test_what_ratios_do_not_share_is_what_the_study_found(checkout: Path) -> None:
    found = json.loads((checkout / ARTEFACT).read_text(encoding="utf-8"))
    assert {kind: each["unshared"] for kind, each in found["kinds"].items()} == UNSHARED


def test_intervals_of_ratios_cover_what_was_measured(checkout: Path) -> None:
    """Also of hosts and engines that the number was found without, about 95%."""
    found = json.loads((checkout / ARTEFACT).read_text(encoding="utf-8"))
    for kind, each in found["kinds"].items():
        assert each["used"] == UNSHARED[kind], "run `make evidence STUDY=ratios` once more"
        for left_out in each["left_out"].values():
            assert left_out["inside"] is None or left_out["inside"] > 0.92, kind


def test_hardly_any_ratio_that_is_called_clear_has_the_wrong_sign(checkout: Path) -> None:
    found = json.loads((checkout / ARTEFACT).read_text(encoding="utf-8"))
    called = sum(each["right"] + each["wrong"] for each in found["signs"])
    assert sum(each["wrong"] for each in found["signs"]) < 0.03 * called
