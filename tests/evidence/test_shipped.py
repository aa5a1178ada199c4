"""Bundles in compact form say what the whole ones say, and shipped profiles follow from them."""

import gzip
import json
import math
import shutil
from pathlib import Path

import pytest
import yaml

from evidence.counts.shipped import REUSE_RANGE, compact, json_text, refit, reused, text_of
from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.fit.fit import fit_bundle
from forecache.calibration.fit.work_model import INSTRUCTIONS, SCALES
from forecache.calibration.observe.design import design_points
from forecache.hwprofiles.files import dump_yaml, parse, read_yaml
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.sim.errors import InputError
from forecache.sim.histogram import LatencyHistogram
from tests.calibration.known_engine import PRIOR, known_engine, observed, written

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
    profile, report = refit(small)
    rules = load_engine("valkey", "9.1")
    assert (profile.id, profile.title, profile.version) == (rules.id, rules.title, rules.version)
    assert profile.observed is not None
    assert profile.observed.version == "9.1.2"
    assert profile.discrepancy is not None
    assert report["measured"]["date"] == "2026-11-20"
    assert report["measured"]["design"] == "quick"
    text = text_of(profile)
    assert parse(EngineProfile, yaml.safe_load(text), file="x") == profile


def test_reused_work_has_wider_ranges_and_the_rules_of_its_version() -> None:
    rules, source = load_engine("valkey-8.1"), known_engine()
    work = {
        name: leaf.model_copy(update={"low": leaf.best / 2, "high": leaf.best * 3})
        for name, leaf in source.work.items()
    }
    profile = reused(rules, source.model_copy(update={"work": work}))
    assert (profile.id, profile.policy) == (rules.id, rules.policy)
    for name in (*INSTRUCTIONS, *SCALES):
        leaf = profile.work[name]
        assert leaf.value == work[name].value
        assert leaf.kind == "assumed"
        assert leaf.low == pytest.approx(work[name].best / 2 / REUSE_RANGE, rel=1e-3)
        assert leaf.high == pytest.approx(work[name].best * 3 * REUSE_RANGE, rel=1e-3)
        assert PRIOR.id in (leaf.method or "")
    for name in set(rules.work) - {*INSTRUCTIONS, *SCALES}:
        assert profile.work[name] == rules.work[name]


def test_json_has_six_digits() -> None:
    data = {"a": [math.pi, 1], "b": {"c": 123456789.0}, "d": None, "e": True}
    assert json.loads(json_text(data)) == {
        "a": [3.14159, 1], "b": {"c": 123457000.0}, "d": None, "e": True,
    }  # fmt: skip
