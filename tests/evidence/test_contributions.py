"""Contributions: what comes in, what is refused and why, and that the prediction is blind."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evidence.contributions import archive, page, plausible, questions, take_in
from evidence.contributions.archive import read_archive
from evidence.contributions.questions import read_questions
from forecache.calibration.bundle.bundle import HASHES_FILE, Bundle, write_archive
from forecache.hwprofiles.files import dump_yaml, read_yaml
from forecache.sim.errors import InputError

KEPT = Path("evidence/generations/captured-amd-epyc-26-2-2cpus/valkey-8.1.1/calibration")
"""A bundle of this project, some points of which are sent as if by somebody else."""
POINTS = (0, 5, 9, 13)
BUNDLE = "mine"


@pytest.fixture(autouse=True)
def short_and_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short predictions, and a folder of its own to keep them in."""
    monkeypatch.setattr(questions, "DRAWS", 3)
    monkeypatch.setattr(questions, "REQUESTS", 1000)
    monkeypatch.setattr(take_in, "FOLDER", tmp_path / "received")


def quiet(_line: str) -> None:
    pass


Change = Callable[[dict[str, Any], list[dict[str, Any]], dict[str, Any]], None]
"""Changes manifest, points and host in place."""


def sent(tmp_path: Path, change: Change | None = None) -> Path:
    """The archive of a bundle, in which something may be changed before hashes are taken."""
    folder = tmp_path / BUNDLE
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    manifest, host = (read_yaml(KEPT / name) for name in ("manifest.yaml", "host.yaml"))
    lines = gzip.decompress((KEPT / "points.jsonl.gz").read_bytes()).decode().splitlines()
    points = [json.loads(lines[number]) for number in POINTS]
    manifest |= {"points": len(points), "profiles": 0}
    manifest |= {"contributor": "Ada Example", "licence": "Apache-2.0"}
    if change is not None:
        change(manifest, points, host)
    (folder / "manifest.yaml").write_text(dump_yaml(manifest))
    (folder / "host.yaml").write_text(dump_yaml(host))
    (folder / "points.jsonl").write_text("".join(json.dumps(p) + "\n" for p in points))
    shutil.copyfile(KEPT / "config.yaml", folder / "config.yaml")
    return write_archive(folder)


def packed(tmp_path: Path, *entries: tuple[tarfile.TarInfo, bytes], top: str = BUNDLE) -> Path:
    """The archive with other entries beside its own."""
    file = sent(tmp_path)
    with tarfile.open(file) as old:
        own = [
            (member, content.read())
            for member in old
            if (content := old.extractfile(member)) is not None
        ]
    with tarfile.open(file, "w:gz") as new:
        for entry, content in [*own, *entries]:
            entry.name = entry.name.replace("TOP", top)
            entry.size = len(content)
            new.addfile(entry, io.BytesIO(content))
    return file


def entry(name: str, kind: bytes = tarfile.REGTYPE, to: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, to
    return found


def test_a_contribution_comes_in_is_predicted_and_shown(tmp_path: Path) -> None:
    file = sent(tmp_path)
    folder = take_in.take_in(file, progress=quiet)
    with pytest.raises(InputError, match="came in before"):
        take_in.take_in(file, progress=quiet)
    [found] = take_in.received()
    assert found.folder == folder
    assert (found.about["contributor"], found.about["licence"]) == ("Ada Example", "Apache-2.0")
    written = (folder / take_in.PREDICTIONS).read_bytes()
    assert hashlib.sha256(written).hexdigest() == found.about["predictions_sha256"]
    assert len(Bundle.load(folder / take_in.BUNDLE).points) == len(found.points) == len(POINTS)
    errors = take_in.summary(found.points)
    assert errors["CPU time a request"]["median"] < 0.5
    [text] = page.pages().values()
    assert "by Ada Example" in str(text)
    assert all(row["point"] in str(text) for row in found.points)


def other_numbers(_manifest: Any, points: list[dict[str, Any]], _host: Any) -> None:
    """Every measured number that is a float becomes another one."""
    for point in points:
        for window in point["repetitions"]:
            for name, value in window.items():
                if isinstance(value, float):
                    window[name] = 1.7 * value + 3.0


def test_the_prediction_cannot_see_what_was_measured(tmp_path: Path) -> None:
    found = []
    for change in (None, other_numbers):
        folder = tmp_path / str(change is None)
        folder.mkdir()
        read_archive(sent(tmp_path, change)).unpack(folder)
        found.append(read_questions(folder))
    assert found[0] == found[1]


def test_it_is_written_before_measured_numbers_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def load(_path: Path) -> Bundle:
        [hidden] = take_in.FOLDER.iterdir()
        seen.append((hidden / take_in.PREDICTIONS).is_file())
        raise InputError("the measured numbers")

    monkeypatch.setattr(take_in.Bundle, "load", load)
    with pytest.raises(InputError, match="the measured numbers"):
        take_in.take_in(sent(tmp_path), progress=quiet)
    assert seen == [True]
    assert list(take_in.FOLDER.iterdir()) == []


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (entry("../outside.txt"), "found '../outside.txt'"),
        (entry("TOP/../../manifest.yaml"), "valid are the files of a bundle"),
        (entry("/etc/passwd"), "found '/etc/passwd'"),
        (entry("TOP/setup.py"), "setup.py"),
        (entry("TOP/info/001.txt", tarfile.SYMTYPE, "/etc/passwd"), "info/001.txt"),
        (entry("TOP/info/001.txt", tarfile.LNKTYPE, "TOP/host.yaml"), "info/001.txt"),
        (entry("TOP/info/001.txt", tarfile.FIFOTYPE), "info/001.txt"),
        (entry("TOP/host.yaml"), "each once"),
        (entry("other/info/001.txt"), "found 2 folders"),
        (entry("TOP/info/001.txt"), "only there or only in the archive"),
    ],
)
def test_only_the_files_of_one_bundle_are_unpacked(
    tmp_path: Path, extra: tarfile.TarInfo, says: str
) -> None:
    before = sorted(tmp_path.parent.rglob("outside.txt"))
    with pytest.raises(InputError, match=says):
        take_in.take_in(packed(tmp_path, (extra, b"")), progress=quiet)
    assert sorted(tmp_path.parent.rglob("outside.txt")) == before
    assert not take_in.FOLDER.exists()


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    whole = sent(tmp_path).read_bytes()
    broken = tmp_path / "broken.tar.gz"
    for data, says in (
        (whole[:-200], "is cut off"),
        (b"not an archive", "no gzip"),
        (gzip.compress(b"not a tar file" * 100), "no tar file|found no manifest"),
        (b"", "is cut off"),
    ):
        broken.write_bytes(data)
        with pytest.raises(InputError, match=says):
            read_archive(broken)
    with pytest.raises(InputError, match="No such file"):
        read_archive(tmp_path / "nothing.tar.gz")


def test_what_unpacks_to_very_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MOST_BYTES", 2**20)
    bomb = tmp_path / "bomb.tar.gz"
    bomb.write_bytes(gzip.compress(bytes(2**26)))
    with pytest.raises(InputError, match="unpacks to more than 1 MiB"):
        read_archive(bomb)


def test_contents_that_are_not_as_hashed_are_refused(tmp_path: Path) -> None:
    file = sent(tmp_path)
    with tarfile.open(file) as old:
        own = {m.name: old.extractfile(m).read() for m in old}  # type: ignore[union-attr]
    name = f"{BUNDLE}/points.jsonl"
    own[name] = own[name].replace(b'"requests":', b'"requests" :', 1)
    with tarfile.open(file, "w:gz") as new:
        for each, content in own.items():
            found = entry(each)
            found.size = len(content)
            new.addfile(found, io.BytesIO(content))
    with pytest.raises(InputError, match=rf"points.jsonl: its contents .* {HASHES_FILE}"):
        read_archive(file)


def in_window(**values: Any) -> Change:
    """Set numbers of the first window of the first point."""

    def change(_manifest: Any, points: list[dict[str, Any]], _host: Any) -> None:
        points[0]["repetitions"][0] |= values

    return change


def scaled(name: str, factor: float) -> Change:
    def change(_manifest: Any, points: list[dict[str, Any]], _host: Any) -> None:
        for point in points:
            for window in point["repetitions"]:
                window[name] *= factor

    return change


def in_manifest(**values: Any) -> Change:
    def change(manifest: dict[str, Any], _points: Any, _host: Any) -> None:
        for name, value in values.items():
            manifest[name] = manifest[name] | value if isinstance(value, dict) else value

    return change


def in_host(**values: Any) -> Change:
    def change(_manifest: Any, _points: Any, host: dict[str, Any]) -> None:
        for name, value in values.items():
            host[name] = host[name] | value if isinstance(value, dict) else value

    return change


def slower_l1(_manifest: Any, _points: Any, host: dict[str, Any]) -> None:
    host["caches"][0]["latency_ns"] |= {"value": 50.0, "low": 50.0, "high": 50.0}


def alike(_manifest: Any, points: list[dict[str, Any]], _host: Any) -> None:
    for point in points:
        first = point["repetitions"][0]
        for number, window in enumerate(point["repetitions"]):
            start = window["started_s"]
            point["repetitions"][number] = first | {"started_s": start}


TOMORROW = (datetime.now(UTC) + timedelta(days=3)).isoformat(timespec="seconds")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (scaled("throughput_rps", 2.0), "requests over time and throughput of 0.5"),
        (scaled("main_thread_cpu_ns_per_request", 0.5), "CPU time and busy share of the main"),
        (scaled("received_bytes_per_request", 2.0), "bytes of a reply over those of its value"),
        (in_window(p50_ms=9.0, p90_ms=3.0, p99_ms=5.0), "quantile of latency over the next of 3"),
        (in_window(mean_ms=1000.0), "requests under way over those that clients have"),
        (in_window(used_memory_bytes=10), "used memory over the values"),
        (in_window(started_s=-5.0), "within the .* s of the observation"),
        (in_window(duration_s=-1.0), "duration_s"),
        (in_window(p99_ms=float("nan")), "no point .*NaN|nan"),
        (in_window(p99_ms=1e999), "found the number|inf|Infinity"),
        (alike, "found repeats that differ by 0.00%"),
        (in_manifest(contributor=None), "'contributor'"),
        (in_manifest(contributor="Ada\nExample"), "'contributor'"),
        (in_manifest(contributor="A" * 81), "'contributor'"),
        (in_manifest(licence="none"), "'licence'.*Apache-2.0"),
        (in_manifest(created=TOMORROW), "'created'"),
        (in_manifest(forecache_version="99.0.0"), "'forecache_version'"),
        (in_manifest(engine={"name": "../../engine.yaml"}), "field 'engine'"),
        (in_manifest(engine={"version": "8.1.1/../x"}), "field 'engine'"),
        (in_manifest(engine={"sha256": "0"}), "'engine.sha256'"),
        (in_manifest(method={"tool": "/bin/sh"}), "method.tool"),
        (in_manifest(machine={"kernel": "5.4.0"}), "captured.kernel"),
        (in_manifest(machine={"cpu_model": "Z80"}), "captured.cpu_model"),
        (in_host(captured=None), "captured"),
        (in_host(clock_ghz={"value": 90.0, "low": 90.0, "high": 90.0}), "clock_ghz 90; plausible"),
        (slower_l1, "a longer time farther away"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, says: str
) -> None:
    monkeypatch.setattr(take_in, "predict", lambda *_, **__: [])  # which takes seconds
    file = sent(tmp_path, change)
    with pytest.raises(InputError, match=says) as refused:
        take_in.take_in(file, progress=quiet)
    assert str(file) in str(refused.value)
    assert "contribution-" not in str(refused.value)  # the folder that it was unpacked to
    assert not take_in.FOLDER.exists() or list(take_in.FOLDER.iterdir()) == []


def test_a_program_has_the_version_that_its_hash_is_known_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take_in, "predict", lambda *_, **__: [])
    known = read_yaml("evidence/bundles/valkey-9.1/manifest.yaml")["engine"]
    file = sent(tmp_path, in_manifest(engine={"sha256": known["sha256"]}))
    with pytest.raises(InputError, match=r"9\.1\.2.*of the program with this hash"):
        take_in.take_in(file, progress=quiet)


def flagged(_manifest: Any, points: list[dict[str, Any]], _host: Any) -> None:
    for point in points:
        for window in point["repetitions"]:
            window["flags"] = ["slowed"]


def test_what_is_unusual_but_possible_is_a_doubt(tmp_path: Path) -> None:
    def change(manifest: Any, points: Any, host: dict[str, Any]) -> None:
        flagged(manifest, points, host)
        manifest["contributor"] = "[Ada](http://x) | <b>"
        host["dram"]["latency_ns"] |= {"value": 600.0, "low": 600.0, "high": 600.0}

    take_in.take_in(sent(tmp_path, change), progress=quiet)
    [found] = take_in.received()
    doubts = " ".join(found.about["doubts"])
    assert "100% of" in doubts and "were disturbed" in doubts  # noqa: PT018
    assert "dram_ns of the host is 600" in doubts
    [text] = page.pages().values()
    assert "Doubt: 100% of" in str(text)
    assert "by Ada(http://x)  b with" in str(text)  # no link, cell or tag


@pytest.mark.parametrize("name", ["valkey-8.1", "redis-7.0", "memcached-1.6"])
def test_bundles_of_this_project_keep_the_limits(name: str) -> None:
    bundle = Bundle.load(Path("evidence/bundles") / name)
    plausible.check_measured(bundle)
