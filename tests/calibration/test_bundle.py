import gzip
import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given as any_given
from hypothesis import strategies as st

from forecache.calibration.bundle.bundle import (
    Bundle,
    Engine,
    Manifest,
    Method,
    ObservedMachine,
    read_points,
    whole_folder,
    write_bundle,
)
from forecache.calibration.bundle.points import Conditions, ObservedPoint, Popularity, Repetition
from forecache.hwprofiles import load_host
from forecache.reports.builders import document
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
        given=Conditions(command="get", pipeline=4, popularity=Popularity(kind="zipf")),
        repetitions=[repetition(5000.0), repetition(5200.0)],
    ),
    ObservedPoint(
        given=Conditions(command="mix", get_fraction=0.8, role="holdout"),
        repetitions=[repetition(6000.0, io_thread_cpu_ns_per_request=[100.0, 50.0])],
    ),
]

MANIFEST = Manifest(
    created="2026-11-20T12:00:00+00:00",
    forecache_version="0.1.0",
    elapsed_s=60.0,
    engine=Engine(name="valkey", version="9.1.2", path="/usr/bin/valkey-server", sha256="ab" * 32),
    machine=ObservedMachine(
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
    assert sum(stored["counts"].values()) == 1


def test_its_points_are_a_table(folder: Path) -> None:
    made = document(Bundle.load(folder)).tables["points"]()
    columns = dict(zip((name for name, _ in made.columns), made.cells, strict=True))
    assert columns["pipeline"] == [point.given.pipeline for point in POINTS]
    assert columns["repetitions"] == [len(point.repetitions) for point in POINTS]


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


@pytest.fixture
def packed(folder: Path) -> Path:
    """The same bundle with its points compressed and no INFO."""
    plain = folder / "points.jsonl"
    lines = [json.loads(line) for line in plain.read_text().splitlines()]
    text = "".join(json.dumps({**line, "info": None}) + "\n" for line in lines)
    (folder / "points.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    plain.unlink()
    return folder


def test_compressed_points_are_read_as_plain_ones(packed: Path) -> None:
    bundle = Bundle.load(packed)
    assert [point.given for point in bundle.points] == [point.given for point in POINTS]
    assert [p.repetitions for p in bundle.points] == [p.repetitions for p in POINTS]
    assert bundle.info_text(bundle.points[0]) is None


def _broken_middle(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda f: f.write_bytes(f.read_bytes()[:-9]), "no gzipped text"),
        (lambda f: f.write_bytes(f.read_bytes()[:4]), "no gzipped text"),
        (lambda f: f.write_bytes(b"plain"), "no gzipped text"),
        (_broken_middle, "no gzipped text"),
        (lambda f: f.write_bytes(gzip.compress(b"\xff\xfe")), "no gzipped text"),
        (lambda f: f.write_bytes(gzip.compress(b"")), "line 1: .* after 0 points"),
        (lambda f: f.write_bytes(b""), "line 1: .* after 0 points"),
        (lambda f: f.write_bytes(gzip.compress(b"{\n")), "line 1: no JSON"),
    ],
)
def test_damaged_compressed_points_are_one_clear_error(
    packed: Path, damage: Any, complaint: str
) -> None:
    damage(packed / "points.jsonl.gz")
    with pytest.raises(InputError, match=f"points.jsonl.gz.*{complaint}") as caught:
        Bundle.load(packed)
    assert "\n" not in str(caught.value)


@any_given(st.binary(max_size=200))
def test_no_bytes_break_the_reader_of_compressed_points(content: bytes) -> None:
    with TemporaryDirectory() as name:
        file = Path(name) / "points.jsonl.gz"
        for data in (content, gzip.compress(content)):
            file.write_bytes(data)
            with pytest.raises(InputError, match=r"points\.jsonl\.gz"):
                read_points(file, expected=1)


def test_another_format_is_refused(folder: Path) -> None:
    file = folder / "manifest.yaml"
    file.write_text(file.read_text().replace("forecache-bundle/1", "forecache-bundle/9"))
    with pytest.raises(InputError, match="found 'forecache-bundle/9'; valid is forecache-bundle/1"):
        Bundle.load(folder)


def test_what_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
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
    given = Conditions(command="get")
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
    assert Conditions(command="get").get_fraction == 1.0
    assert Conditions(command="set").get_fraction == 0.0
    assert Conditions(command="mix").get_fraction == 0.5
    assert Conditions(command="get") == Conditions(command="get")
    assert (
        len({Conditions(command="get"), Conditions(command="get"), Conditions(command="set")}) == 2
    )
    assert Conditions(command="get", pipeline=16, keys=100).label() == "get P16 v16 k100 c50"
    with pytest.raises(ValueError, match="open_loop"):
        Conditions(command="get", arrival="open_loop")
    with pytest.raises(ValueError, match="rate_share with arrival open_loop"):
        Conditions(command="get", rate_share=0.5)


def test_an_open_loop_and_the_closed_one_it_is_a_share_of() -> None:
    share = Conditions(
        command="get", pipeline=2, arrival="open_loop", rate_share=0.8, role="holdout"
    )
    assert share.label().endswith("load80%")
    closed = Conditions(command="get", pipeline=2)
    assert share.closed_twin == closed
    assert closed.model_copy(update={"role": "holdout"}).closed_twin == closed
    assert share.data_set == closed.data_set
    resolved = share.model_copy(update={"rate_rps": 12_345.0})
    assert resolved.closed_twin == closed
    assert resolved.label() == share.label()
    assert resolved.rate_rps == 12_345.0
    # The plain conditions of a rate stay as they were.
    rate = Conditions(command="get", arrival="open_loop", rate_rps=5e4)
    assert rate.label().endswith("50000rps")
    assert Conditions.model_validate_json(share.model_dump_json()) == share


def test_the_repetition_of_median_cpu_time_gives_all_numbers() -> None:
    given = Conditions(command="get")
    least = repetition(5200.0, reads_per_request=0.5)
    middle = repetition(5300.0, reads_per_request=0.25, throughput_rps=1500.0)
    most = repetition(5200.0, reads_per_request=0.75, io_thread_cpu_ns_per_request=[300.0])
    noisy = repetition(4000.0, reads_per_request=0.9, flags=["disturbed"])
    point = ObservedPoint(given=given, repetitions=[most, least, noisy, middle])
    assert point.ordinary("server_cpu_ns_per_request") == 5300.0
    assert point.ordinary("reads_per_request") == 0.25
    assert point.ordinary("throughput_rps") == 1500.0
    assert math.isnan(point.ordinary("writes_per_request"))
    assert point.undisturbed == pytest.approx(5200.0 / 5300.0)
    # Of an even number the middle two count alike.
    even = ObservedPoint(given=given, repetitions=[most, least])
    assert even.ordinary("server_cpu_ns_per_request") == 5350.0
    assert even.ordinary("reads_per_request") == 0.625
    only = ObservedPoint(given=given, repetitions=[noisy])
    assert only.ordinary("reads_per_request") == 0.9
