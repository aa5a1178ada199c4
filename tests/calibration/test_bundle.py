import json
from pathlib import Path
from typing import Any

import pytest

from forecache.calibration.bundle import (
    Bundle,
    Engine,
    Machine,
    Manifest,
    Method,
    whole_folder,
    write_bundle,
)
from forecache.calibration.loadspec import Popularity
from forecache.calibration.points import Given, ObservedPoint, Repetition
from forecache.hwprofiles import load_host
from forecache.sim.errors import InputError
from forecache.sim.histogram import LatencyHistogram


def repetition(cpu_ns: float, **change: Any) -> Repetition:
    histogram = LatencyHistogram()
    histogram.record(250_000_000)
    numbers: dict[str, Any] = {
        "started_s": 1.5,
        "requests": 1000,
        "duration_s": 0.5,
        "throughput_rps": 2000.0,
        "histogram": histogram.to_dict(),
        "main_thread_cpu_ns_per_request": cpu_ns,
        "main_thread_utilisation": 0.9,
        "main_voluntary_switches_per_request": 0.0,
        "main_involuntary_switches_per_request": 0.0,
        "generator_cpu_ns_per_request": 3000.0,
        "generator_utilisation": 0.5,
    }
    return Repetition(**(numbers | change))


POINTS = [
    ObservedPoint(
        given=Given(command="get", pipeline=4, popularity=Popularity(kind="zipf")),
        repetitions=[repetition(5000.0), repetition(5200.0)],
    ),
    ObservedPoint(
        given=Given(command="mix", get_fraction=0.8, role="holdout"),
        repetitions=[repetition(6000.0, io_thread_cpu_ns_per_request=[100.0, 50.0])],
    ),
]

MANIFEST = Manifest(
    created="2026-11-20T12:00:00+00:00",
    forecache_version="0.1.0",
    elapsed_s=60.0,
    engine=Engine(name="valkey", version="9.1.2", path="/usr/bin/valkey-server", sha256="ab" * 32),
    machine=Machine(
        cpu_model="AMD EPYC",
        kernel="6.1",
        architecture="x86_64",
        cores_available=2,
        main_thread_core=0,
        io_thread_cores=[],
        generator_cores=[1],
    ),
    method=Method(
        tool="forecache",
        design="custom",
        repetitions=2,
        warm_up_s=0.1,
        window_s=0.5,
        seed=1,
        generator_receive_bytes=65536,
    ),
    points=2,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "bundle"
    with whole_folder(path) as temporary:
        write_bundle(
            temporary,
            manifest=MANIFEST,
            points=POINTS,
            info=["# Server\nversion:9\n", "# Server\nversion:9\n"],
            configs={"config.yaml": {"io-threads": "1", "save": ""}},
            host=load_host("graviton3"),
        )
    return path


def test_what_is_written_is_read(folder: Path) -> None:
    bundle = Bundle.load(folder)
    assert bundle.manifest == MANIFEST
    assert [point.given for point in bundle.points] == [point.given for point in POINTS]
    assert [p.repetitions for p in bundle.points] == [p.repetitions for p in POINTS]
    assert bundle.config == {"io-threads": "1", "save": ""}
    assert bundle.host is not None
    assert bundle.host.id == "graviton3"
    assert bundle.host == load_host("graviton3")
    assert bundle.info_text(bundle.points[1]) == "# Server\nversion:9\n"
    stored = bundle.points[0].repetitions[0].histogram
    assert stored is not None
    assert LatencyHistogram.from_dict(stored).count == 1


def cut(path: Path, keep: float) -> None:
    text = path.read_text()
    path.write_text(text[: int(len(text) * keep)])


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda f: cut(f / "points.jsonl", 0.8), r"points.jsonl, line 2: no JSON"),
        (lambda f: cut(f / "points.jsonl", 0.3), r"points.jsonl, line 1: no JSON"),
        (lambda f: (f / "points.jsonl").write_text(""), r"points.jsonl, line 1: .* after 0 points"),
        (lambda f: (f / "points.jsonl").unlink(), r"points.jsonl: no such file"),
        (lambda f: (f / "points.jsonl").write_bytes(b"\xff\xfe"), r"points.jsonl"),
        (lambda f: (f / "manifest.yaml").unlink(), r"manifest.yaml: no such file"),
        (lambda f: cut(f / "manifest.yaml", 0.5), r"manifest.yaml"),
        (lambda f: (f / "config.yaml").unlink(), r"config.yaml: no such file"),
        (lambda f: (f / "info" / "002.txt").unlink(), r"info/002.txt: no such file"),
        (lambda f: cut(f / "host.yaml", 0.5), r"host.yaml"),
    ],
)
def test_a_damaged_bundle_is_one_clear_error(folder: Path, damage: Any, complaint: str) -> None:
    damage(folder)
    with pytest.raises(InputError, match=complaint) as caught:
        Bundle.load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (["given", "pipeline"], -4, "line 1.*given.pipeline.*-4"),
        (["given", "comand"], "get", "line 1.*comand"),
        (["given", "get_fraction"], 0.5, "line 1.*agrees with get_fraction"),
        (["given", "rate_rps"], 100.0, "line 1.*rate_rps"),
        (["repetitions"], [], "line 1.*repetitions"),
        (["repetitions", 0, "requests"], "many", r"line 1.*repetitions.*requests.*many"),
    ],
)
def test_a_wrong_field_is_named(folder: Path, path: list[Any], value: Any, complaint: str) -> None:
    file = folder / "points.jsonl"
    lines = file.read_text().splitlines()
    data = json.loads(lines[0])
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    file.write_text("\n".join([json.dumps(data), *lines[1:]]) + "\n")
    with pytest.raises(InputError, match=complaint):
        Bundle.load(folder)


def test_another_format_is_refused(folder: Path) -> None:
    file = folder / "manifest.yaml"
    file.write_text(file.read_text().replace("forecache-bundle/1", "forecache-bundle/9"))
    with pytest.raises(InputError, match="found 'forecache-bundle/9'; valid is forecache-bundle/1"):
        Bundle.load(folder)


def test_what_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no folder"):
        Bundle.load(tmp_path / "none")
    with pytest.raises(InputError, match=r"manifest.yaml: no such file"):
        Bundle.load(tmp_path)


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "bundle"

    def stopped() -> None:
        with whole_folder(out) as temporary:
            (temporary / "half").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert list(tmp_path.iterdir()) == []
    out.mkdir()  # an empty folder is as good as none
    with whole_folder(out) as temporary:
        (temporary / "whole").write_text("x")
        assert not list(out.iterdir())
    assert [path.name for path in out.iterdir()] == ["whole"]
    with pytest.raises(InputError, match="exists already"), whole_folder(out):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_medians_prefer_undisturbed_repetitions() -> None:
    values = [(5000.0, []), (5200.0, []), (9000.0, ["disturbed"]), (9500.0, ["disturbed"])]
    given = Given(command="get")
    point = ObservedPoint(
        given=given, repetitions=[repetition(value, flags=flags) for value, flags in values]
    )
    assert point.median("main_thread_cpu_ns_per_request") == 5100.0
    noisy = ObservedPoint(given=given, repetitions=point.repetitions[2:])
    assert noisy.median("main_thread_cpu_ns_per_request") == 9250.0
    assert point.median("event_loops_per_request") != point.median("event_loops_per_request")  # nan
    assert point.spread("main_thread_cpu_ns_per_request") == pytest.approx(4500 / 7100)
    assert POINTS[1].repetitions[0].server_cpu_ns_per_request == 6150.0


def test_given_fills_and_checks() -> None:
    assert Given(command="get").get_fraction == 1.0
    assert Given(command="set").get_fraction == 0.0
    assert Given(command="mix").get_fraction == 0.5
    assert Given(command="get") == Given(command="get")
    assert len({Given(command="get"), Given(command="get"), Given(command="set")}) == 2
    assert Given(command="get", pipeline=16, keys=100).label() == "get P16 v16 k100 c50"
    with pytest.raises(ValueError, match="open_loop"):
        Given(command="get", arrival="open_loop")
