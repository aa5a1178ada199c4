"""The shipped engine profiles follow from the committed observations."""

from pathlib import Path

import numpy as np
import pytest

from evidence.counts.shipped import BUNDLES, ELSEWHERE, RELATIVES, known_from
from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import ObservedPoint
from forecache.calibration.fit.fit import fit_bundle, is_usable
from forecache.calibration.fit.prior import (
    HOST_SCALE_ERRORS,
    is_counted,
    marginal_covariance,
    prior_error,
    priors,
)
from forecache.calibration.fit.work_model import INSTRUCTIONS, SCALES
from forecache.models.engines.profile import EngineProfile, load_engine

ROOT = Path(__file__).parents[3]
FOLDERS = sorted(path for path in (ROOT / BUNDLES).iterdir() if path.is_dir())


def numbers_of(profile: EngineProfile) -> list[str]:
    """Work that an engine has: Memcached fetches nothing ahead."""
    return [name for name in (*INSTRUCTIONS, *SCALES) if profile.work[name].best > 0.0]


def fitted_numbers_of(profile: EngineProfile) -> list[str]:
    """Those that were not counted call by call."""
    return [name for name in numbers_of(profile) if not is_counted(profile.work[name])]


def test_engines_of_ten_generations_and_memcached_were_observed() -> None:
    redis = ("2.8", "3.2", "5.0", "6.2", "7.0", "8.0", "8.6")
    valkey = ("8.0", "8.1", "9.1")
    names = ["memcached-1.6", *(f"redis-{v}" for v in redis), *(f"valkey-{v}" for v in valkey)]
    assert [folder.name for folder in FOLDERS] == names
    size_bytes = sum(file.stat().st_size for folder in FOLDERS for file in folder.rglob("*"))
    assert size_bytes < 3 * 2**20, "compact"


@pytest.mark.long
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_shipped_profile_is_what_its_bundle_gives(folder: Path) -> None:
    shipped = load_engine(folder.name)
    known = None
    if folder.name in RELATIVES:
        known = known_from(load_engine(RELATIVES[folder.name]), shipped)
    same_host = folder.name not in ELSEWHERE
    fitted = fit_bundle(Bundle.load(folder), known=known, same_host=same_host).profile
    for name in numbers_of(shipped):
        expected, found = fitted.work[name], shipped.work[name]
        # Other machines may round the last of four digits differently.
        assert found.value == pytest.approx(expected.value, rel=2e-3), name
        assert found.low == pytest.approx(expected.low, rel=2e-3), name
        assert found.high == pytest.approx(expected.high, rel=2e-3), name
        assert (found.kind, found.method) == (expected.kind, expected.method), name
    assert shipped.observed is not None
    assert fitted.observed is not None
    for name, value in fitted.observed.speed.items():
        assert shipped.observed.speed[name] == pytest.approx(value, rel=2e-3), name
    assert shipped.observed.build == fitted.observed.build
    assert shipped.observed.depth == "instructions"
    assert shipped.discrepancy is not None
    bundle = Bundle.load(folder)
    points = len([p for p in bundle.points if fits(p)])
    before = 0 if known is None else known.discrepancy_points
    assert shipped.discrepancy_points == points + (before or 0)
    assert bundle.host is not None
    assert shipped.observed.host == bundle.host.id
    assert "callgrind" in {profile.profiler for profile in bundle.profiles}


def fits(point: ObservedPoint) -> bool:
    return point.given.role == "fit" and is_usable(point) and point.given.rate_share is None


@pytest.mark.parametrize("name", [folder.name for folder in FOLDERS])
def test_what_rests_on_its_prior_is_not_called_measured_or_fitted(name: str) -> None:
    """From the ranges alone: what a range is not narrower than before, no data told."""
    profile = load_engine(name)
    work, before_all = profile.work, priors()
    rests = set()
    for number in fitted_numbers_of(profile):
        before = before_all[number]
        added = 1.0 - (prior_error(work[number]) / prior_error(before)) ** 2
        if added < 0.1:
            rests.add(number)
            assert work[number].kind == "prior", f"{number}: the data add {added:.1%}"
        else:
            assert work[number].kind == "fitted", f"{number}: the data add {added:.1%}"
    assert rests


@pytest.mark.parametrize("name", [folder.name for folder in FOLDERS])
def test_what_is_known_anywhere_is_what_the_ranges_say(name: str) -> None:
    """The covariance whatever the host is, put together again, has the ranges on its diagonal.

    Not what the host of the fit may have added to: there ranges are those of the engine anywhere.
    """
    profile = load_engine(name)
    added = HOST_SCALE_ERRORS if name in ELSEWHERE else {}
    names = [number for number in fitted_numbers_of(profile) if number not in added]
    errors = np.sqrt(np.diag(marginal_covariance(profile, names)))
    expected = [prior_error(profile.work[number]) for number in names]
    assert errors == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("name", "origin"),
    [("redis-3.0", "redis-3.2"), ("redis-4.0", "redis-5.0"),
     ("redis-7.4", "redis-7.0"), ("valkey-7.2", "redis-7.0"),
     ("redis-8.2", "redis-8.0"), ("redis-8.4", "redis-8.6"), ("valkey-9.0", "valkey-8.1")],
)  # fmt: skip
def test_work_of_another_version_is_on_record(name: str, origin: str) -> None:
    profile = load_engine(name)
    assert profile.reuse is not None
    assert profile.reuse.origin == origin
    source = load_engine(origin)
    for number in (*INSTRUCTIONS, *SCALES):
        leaf, known = profile.work[number], source.work[number]
        if known.best == 0.0:
            assert leaf.best == 0.0, "a step that neither has"
            continue
        if (name, number) == ("redis-8.2", "prefetch_instructions_per_key"):
            continue  # 8.0 looks no keys up together
        assert leaf.value == known.value
        assert leaf.low is not None
        assert known.low is not None
        assert leaf.low < known.low, "less is known of another version"
