"""What fits and designs of these tests have in common is worked out once."""

from collections.abc import Iterator
from typing import Any

import pytest

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.fit import work_model
from forecache.calibration.fit.work_model import PointCounts, PointTimes
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.engines.profile import EngineProfile


@pytest.fixture(scope="session", autouse=True)
def _times_of_a_point_once() -> Iterator[None]:
    """Most of a fit is what its points take at the prior's numbers, which most fits share.

    The key is all that these times depend on.
    """
    known: dict[Any, PointTimes] = {}
    work_out = work_model._one_point

    def once(
        given: Conditions, counts: PointCounts, engine: EngineProfile, speed: HostSpeed
    ) -> PointTimes:
        key = (given, counts, engine.model_dump_json(), speed)
        if key not in known:
            known[key] = work_out(given, counts, engine, speed)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work_model, "_one_point", once)
        yield
