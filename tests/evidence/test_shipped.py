"""Bundles in compact form say what the whole ones say, and shipped profiles follow from them."""

import gzip
import json
import math
import shutil
from pathlib import Path

import pytest
import yaml

from evidence.counts.shipped import BUNDLES, ENGINES, compact, files_of, json_text, refit
from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.fit import identifiability
from forecache.calibration.fit.fit import fit_bundle
from forecache.calibration.fit.work_model import INSTRUCTIONS, SCALES
from forecache.calibration.observe.design import design_points
from forecache.hwprofiles.files import dump_yaml, parse, read_yaml
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.sim.errors import InputError
from forecache.sim.histogram import LatencyHistogram
from tests.calibration.known_engine import observed, written

ROOT = Path(__file__).parents[2]
FEW = [given for given in design_points("quick") if given.keys <= 1000][:12]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with histograms, and counts with more digits than mean anything."""
    histogram = LatencyHistogram()
    histogram.record(10**9)
    points = []
    for point in map(observed, FEW):
        [repetition] = point.repetitions
        update = {"histogram": histogram.to_dict(), "p50_ms": 1.0 / 3.0}
        points.append(
            point.model_copy(update={"repetitions": [repetition.model_copy(update=update)]})
        )
    return written(tmp_path_factory.mktemp("shipped") / "whole", points)


@pytest.fixture(scope="module")
def small(whole: Path) -> Path:
    """The same in compact form."""
    out = whole.parent / "small"
    compact(whole, out)
    return out


def test_a_compact_bundle_has_all_but_histograms_and_info(whole: Path, small: Path) -> None:
    before, after = Bundle.load(whole), Bundle.load(small)
    engine = before.manifest.engine
    bare = engine.model_copy(update={"path": Path(engine.path).name})
    assert after.manifest == before.manifest.model_copy(update={"engine": bare})
    assert after.config == before.config
    assert after.host == before.host
    assert [point.given for point in after.points] == [point.given for point in before.points]
    for old, new in zip(before.points, after.points, strict=True):
        assert new.info is None
        for first, second in zip(old.repetitions, new.repetitions, strict=True):
            assert second.histogram is None
            for name, value in first.model_dump(exclude={"histogram"}).items():
                expected = pytest.approx(value, rel=1e-6) if isinstance(value, float) else value
                assert getattr(second, name) == expected, name
    files = {path.name for path in small.iterdir()}
    assert files == {"manifest.yaml", "config.yaml", "host.yaml", "points.jsonl.gz"}
    size = sum(path.stat().st_size for path in small.iterdir() if "points" in path.name)
    assert size < (whole / "points.jsonl").stat().st_size / 3


def test_a_compact_bundle_holds_no_path_of_the_machine(whole: Path) -> None:
    told = whole.parent / "told"
    shutil.copytree(whole, told)
    config = read_yaml(told / "config.yaml")
    config |= {"dir": "/tmp/engine", "unixsocket": "/tmp/engine/socket"}
    (told / "config.yaml").write_text(dump_yaml(config))
    compact(told, whole.parent / "bare")
    for path in (whole.parent / "bare").glob("*.yaml"):
        assert "/tmp" not in path.read_text(), path.name
    assert "/" not in Bundle.load(whole.parent / "bare").manifest.engine.path


def test_the_same_bundle_gives_the_same_bytes(whole: Path, small: Path) -> None:
    again = whole.parent / "again"
    compact(whole, again)
    twice = whole.parent / "twice"
    compact(small, twice)
    for path in small.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name
        assert path.read_bytes() == (twice / path.name).read_bytes(), path.name
    lines = gzip.decompress((small / "points.jsonl.gz").read_bytes()).decode().splitlines()
    assert len(lines) == len(FEW)
    assert all("histogram" not in json.loads(line)["repetitions"][0] for line in lines)
    with pytest.raises(InputError, match="exists already"):
        compact(whole, small)


def test_a_compact_bundle_gives_the_same_fit(whole: Path, small: Path) -> None:
    one, other = fit_bundle(Bundle.load(whole)), fit_bundle(Bundle.load(small))
    for name in (*INSTRUCTIONS, *SCALES):
        old, new = one.profile.work[name], other.profile.work[name]
        assert new.value == pytest.approx(old.value, rel=1e-3)
        assert new.low == pytest.approx(old.low, rel=1e-3)
        assert new.high == pytest.approx(old.high, rel=1e-3)
    assert other.left_out == pytest.approx(one.left_out, abs=1e-4)


def test_a_shipped_profile_has_the_name_of_its_rules(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forecache.calibration.fit.calibrate.DRAWS", 2)
    monkeypatch.setattr(identifiability, "candidate_points", lambda: FEW)
    profile, report = refit(small)
    rules = load_engine("valkey", "9.1")
    assert (profile.id, profile.title, profile.version) == (rules.id, rules.title, rules.version)
    assert profile.observed is not None
    assert profile.observed.version == "9.1.2"
    assert profile.discrepancy is not None
    assert report["measured"]["date"] == "2026-11-20"
    assert report["measured"]["design"] == "quick"
    [file] = files_of(profile).values()
    assert parse(EngineProfile, yaml.safe_load(file), file="x") == profile


@pytest.mark.parametrize("name", ["redis-7.0", "valkey-8.0", "valkey-9.1"])
def test_shipped_files_are_as_they_are_written(name: str) -> None:
    for path, text in files_of(load_engine(name)).items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, path


def test_only_what_was_fitted_has_a_covariance() -> None:
    files = (ROOT / ENGINES).glob("*.yaml")
    fitted = {path.stem for path in files if "\ncovariance:\n" in path.read_text(encoding="utf-8")}
    assert fitted == {path.name for path in (ROOT / BUNDLES).iterdir()}


def test_json_has_six_digits() -> None:
    data = {"a": [math.pi, 1], "b": {"c": 123456789.0}, "d": None, "e": True}
    assert json.loads(json_text(data)) == {
        "a": [3.14159, 1], "b": {"c": 123457000.0}, "d": None, "e": True,
    }  # fmt: skip
