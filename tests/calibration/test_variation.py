"""By how much windows and starts of a server differ, told from a bundle."""

import numpy as np
import pytest

from forecache.calibration.bundle.points import Conditions, ObservedPoint
from forecache.calibration.fit.fit import (
    DISTURBED_ERROR,
    between_starts,
    between_windows,
    disturbance_errors,
)
from tests.calibration.test_bundle import repetition


def test_windows_are_told_from_repetitions_of_the_same_point() -> None:
    random = np.random.default_rng(4)
    points = [
        ObservedPoint(
            given=Conditions(command="get", pipeline=pipeline),
            repetitions=[
                repetition(1000.0 * pipeline * float(np.exp(0.1 * random.normal())))
                for _ in range(20)
            ],
        )
        for pipeline in range(1, 30)
    ]
    assert between_windows(points) == pytest.approx(0.1, rel=0.1)
    single = [point.model_copy(update={"repetitions": point.repetitions[:1]}) for point in points]
    assert between_windows(single) is None


def test_starts_are_told_apart_from_windows() -> None:
    random = np.random.default_rng(5)
    steady = [list(1000 * np.exp(0.1 * random.normal(size=200))) for _ in range(40)]
    assert (between_starts(steady) or 0.0) < 0.02
    moved = [[x * np.exp(0.2 * random.normal()) for x in [1.0]] for _ in range(40)]
    starts = [
        list(np.array(group) * factor) for group, (factor,) in zip(steady, moved, strict=True)
    ]
    assert between_starts(starts) == pytest.approx(0.2, rel=0.25)
    assert between_starts([]) is between_starts([[1000.0]]) is None


def test_windows_beside_other_work_weigh_less() -> None:
    """A point whose windows all saw other work is known no better than such windows are."""
    given = Conditions(command="get")

    def point(disturbed: int) -> ObservedPoint:
        flags = [["disturbed"]] * disturbed + [[]] * (4 - disturbed)
        windows = [repetition(1000.0).model_copy(update={"flags": own}) for own in flags]
        return ObservedPoint(given=given, repetitions=windows)

    errors = disturbance_errors([point(0), point(1), point(4)])
    assert errors == pytest.approx([0.0, DISTURBED_ERROR / 4, DISTURBED_ERROR])
