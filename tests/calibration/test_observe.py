"""A small observation of the embedded engine, whole and stopped in the middle."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions, Repetition
from forecache.calibration.drive.loadgen import memory_bytes
from forecache.calibration.drive.servers import EngineProcess
from forecache.calibration.observe import spinning
from forecache.calibration.observe.design import Timing
from forecache.calibration.observe.measure import measure_repetition
from forecache.calibration.observe.observe import observe
from forecache.calibration.observe.readers.info import info_fields
from forecache.calibration.observe.spinning import SamplingError
from forecache.hwprofiles import load_host
from forecache.sim.errors import EngineError, InputError

pytestmark = pytest.mark.alone

SHORT = Timing(warm_up_s=0.03, window_s=0.15, repetitions=2, io_warm_up_s=0.5, patience_s=5.0)
DESIGN = [
    Conditions(command="get", pipeline=1, clients=10),
    Conditions(command="get", pipeline=16, clients=10),
    Conditions(command="set", pipeline=16, clients=10, role="holdout"),
    Conditions(command="get", pipeline=4, keys=5000, value_bytes=600, transport="unix"),
    Conditions(command="get", pipeline=4, clients=10, io_threads=2),
]


def all_children() -> set[int]:
    """Processes that any thread of this one has started and not waited for."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        # A thread may end meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(int, (task / "children").read_text().split()))
    return found


@pytest.fixture(scope="module", autouse=True)
def _of_others() -> Iterator[None]:
    """What earlier tests of this process have left is no server of these: a dead process that
    nobody has waited for yet, the tracker of multiprocessing."""
    _OF_OTHERS.update(all_children())
    yield
    _OF_OTHERS.clear()


_OF_OTHERS: set[int] = set()


def children() -> set[int]:
    """Processes that these tests have started and not waited for."""
    return all_children() - _OF_OTHERS


@pytest.fixture(scope="module")
def bundle(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        # What waiting threads look like is of no interest here.
        patch.setattr(spinning, "_LEARN_S", 0.3)
        patch.setattr(spinning, "_PATIENCE_S", 0.5)
        made = observe(
            engine=binary,
            design=DESIGN,
            out=tmp_path_factory.mktemp("observed") / "bundle",
            host=load_host("graviton3"),
            timing=SHORT,
            progress=said.append,
        )
    assert said[-1].startswith("observed 5 points")
    assert not children()
    return made


def test_the_bundle_says_what_was_run(bundle: Bundle) -> None:
    manifest = bundle.manifest
    assert (manifest.engine.name, manifest.engine.version.split(".")[0]) == ("valkey", "9")
    assert len(manifest.engine.sha256) == 64
    assert manifest.points == len(bundle.points) == 5
    assert manifest.left_out == []
    assert manifest.machine.cores_available == len(os.sched_getaffinity(0))
    assert bundle.config["io-threads"] == "1"
    assert (bundle.path / "config-io-threads-2.yaml").is_file()
    assert bundle.host is not None
    info = bundle.info_text(bundle.points[0])
    assert info is not None
    assert info_fields(info)["keyspace_misses"] == "0"


def test_times_and_counts_agree(bundle: Bundle) -> None:
    assert [point.given for point in bundle.points] == DESIGN
    for point in bundle.points:
        assert len(point.repetitions) >= 2
        for r in point.repetitions:
            assert r.errors == r.misses == 0
            assert r.duration_s >= 0.15
            assert r.throughput_rps == pytest.approx(r.requests / r.duration_s)
            # CPU time per request times requests per second is the share of a core used.
            busy = r.main_thread_cpu_ns_per_request * r.throughput_rps / 1e9
            assert busy == pytest.approx(r.main_thread_utilisation, rel=1e-6)
            # schedstat follows a running thread at the kernel's tick, at worst 10 ms.
            assert r.main_thread_utilisation < 1.0 + 2 * 0.01 / r.duration_s
            assert r.mean_ms is not None
            assert r.p50_ms is not None
            assert r.p999_ms is not None
            assert 0 < r.p50_ms <= r.p999_ms
            assert r.used_memory_bytes is not None
            assert r.used_memory_bytes > point.given.keys * point.given.value_bytes


def test_the_pipeline_amortises_reads(bundle: Bundle) -> None:
    by_label = {point.given.label(): point for point in bundle.points}
    one = by_label["get P1 v16 k1000 c10"]
    sixteen = by_label["get P16 v16 k1000 c10"]
    assert one.median("reads_per_request") == pytest.approx(1, rel=0.02)
    assert sixteen.median("reads_per_request") == pytest.approx(1 / 16, rel=0.02)
    assert sixteen.median("writes_per_request") == pytest.approx(1 / 16, rel=0.02)
    assert 0 < one.median("event_loops_per_request") <= 1.01
    cpu = "main_thread_cpu_ns_per_request"
    assert sixteen.median(cpu) < 0.5 * one.median(cpu)
    assert sixteen.median("received_bytes_per_request") == pytest.approx(len("$16\r\n") + 16 + 2)


def test_io_threads_are_told_apart(bundle: Bundle) -> None:
    threaded = bundle.points[-1].repetitions[0]
    assert len(threaded.io_thread_cpu_ns_per_request) == 1
    assert threaded.io_threads_active is not None
    if len(os.sched_getaffinity(0)) < 3:
        assert "oversubscribed" in threaded.flags
    single = bundle.points[0].repetitions[0]
    assert single.io_thread_cpu_ns_per_request == []
    assert "oversubscribed" not in single.flags or len(os.sched_getaffinity(0)) < 2


@pytest.mark.parametrize("step", ["loading", "measuring 1 ", "measuring 3 "])
def test_ctrl_c_leaves_nothing(step: str, binary: Path, tmp_path: Path) -> None:
    servers: set[int] = set()
    threads = threading.active_count()

    def interrupt(message: str) -> None:
        if message.startswith(step):
            servers.update(children())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        observe(
            engine=binary,
            design=DESIGN[:2],
            out=tmp_path / "bundle",
            timing=SHORT,
            progress=interrupt,
        )
    assert servers
    assert not servers & children()
    assert not any(Path(f"/proc/{pid}").exists() for pid in servers)
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() == threads


def test_an_engine_that_dies_in_the_middle(binary: Path, tmp_path: Path) -> None:
    def kill(message: str) -> None:
        if message.startswith("measuring 2 "):
            for pid in children():
                os.kill(pid, 9)

    with pytest.raises(EngineError, match=r"no engine answers|closed a connection|broke|ended"):
        observe(
            engine=binary,
            design=DESIGN[:2],
            out=tmp_path / "bundle",
            timing=SHORT,
            progress=kill,
        )
    assert list(tmp_path.iterdir()) == []


def test_bad_requests_cost_no_time(binary: Path, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    with pytest.raises(InputError, match="design: found 'slow'"):
        observe(engine=binary, design="slow", out=out)
    with pytest.raises(InputError, match="design: found no points"):
        observe(engine=binary, design=[], out=out)
    with pytest.raises(InputError, match="tool: found 'ab'"):
        observe(engine=binary, out=out, tool="ab")
    with pytest.raises(InputError, match="neither an executable file"):
        observe(engine="no-such-server", out=out)
    with pytest.raises(EngineError, match="--version"):
        observe(engine="/bin/false", out=out)
    assert list(tmp_path.iterdir()) == []
    out.mkdir()
    (out / "mine").write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        observe(engine=binary, design=DESIGN[:1], out=out)
    assert (out / "mine").read_text() == "precious"


def test_a_data_set_too_large_for_the_memory_is_left_out(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "forecache.calibration.observe.observe.available_memory_bytes", lambda: 50 * 2**20
    )
    bundle = observe(
        engine=binary,
        design=[DESIGN[0], Conditions(command="get", keys=1_000_000)],
        out=tmp_path / "bundle",
        timing=SHORT,
    )
    assert [point.given for point in bundle.points] == DESIGN[:1]
    assert len(bundle.manifest.left_out) == 1
    assert bundle.manifest.left_out[0].startswith("get P1 v16 k1000000 c50: needs ")


def state(pid: int) -> str:
    """R running, S sleeping, T stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(("data_sets_that_fit", "side_by_side"), [(1.5, 1), (10.0, 2)])
def test_servers_stand_side_by_side_and_all_but_the_measured_one_pause(
    data_sets_that_fit: float,
    side_by_side: int,
    binary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many data sets as fit in memory share the rounds, so that drift favours none."""
    design = [
        Conditions(command="get", clients=5),
        Conditions(command="get", clients=5, value_bytes=20),
    ]
    need = max(memory_bytes(given) for given in design)
    free = int(data_sets_that_fit * need / 0.6)
    monkeypatch.setattr(
        "forecache.calibration.observe.observe.available_memory_bytes", lambda: free
    )
    seen = []

    def look(given: Conditions, process: EngineProcess, *args: Any, **options: Any) -> Repetition:
        # A signal to stop takes effect when the process runs next.
        for _ in range(400):
            states = {pid: state(pid) for pid in children()}
            own = states.pop(process.pid)
            if set(states.values()) <= {"T"}:
                break
            time.sleep(0.005)
        seen.append((given, 1 + len(states)))
        assert own != "T"
        assert set(states.values()) <= {"T"}
        return measure_repetition(given, process, *args, **options)

    monkeypatch.setattr("forecache.calibration.observe.observe.measure_repetition", look)
    monkeypatch.setattr("forecache.calibration.observe.observe._AGAIN_SHARE", 0.0)
    impatient = replace(SHORT, patience_s=0.0)
    bundle = observe(engine=binary, design=design, out=tmp_path / "bundle", timing=impatient)
    assert [point.given for point in bundle.points] == design
    assert {count for _, count in seen} == {side_by_side}
    order = [design.index(given) for given, _ in seen]
    # One after the other, or a round of both and then another.
    assert (order in ([0, 0, 1, 1], [1, 1, 0, 0])) == (side_by_side == 1)
    assert sorted(order) == [0, 0, 1, 1]
    assert not children()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a core for each side")
def test_an_open_loop_runs_at_its_share_of_the_closed_one(binary: Path, tmp_path: Path) -> None:
    design = [
        Conditions(command="get", arrival="open_loop", rate_share=0.25, clients=10, role="holdout"),
        Conditions(command="get", clients=10),
    ]
    bundle = observe(engine=binary, design=design, out=tmp_path / "bundle", timing=SHORT)
    loaded, closed = bundle.points
    assert closed.given == design[1]
    rates = [r.throughput_rps for r in closed.repetitions]
    assert loaded.given.rate_share == 0.25
    rate_rps = loaded.given.rate_rps
    assert rate_rps is not None
    assert 0.25 * min(rates) - 1 <= rate_rps <= 0.25 * max(rates) + 1
    assert loaded.given == design[0].model_copy(update={"rate_rps": rate_rps})
    assert loaded.median("throughput_rps") == pytest.approx(rate_rps, rel=0.1)
    assert closed.repetitions[0].stalled_share is None
    for repetition in loaded.repetitions:
        share = repetition.stalled_share
        assert share is not None
        assert 0.0 <= share <= 1.0
        # Of a slice in which nothing completed nothing is known either.
        assert repetition.quiet_p50_ms is None or share < 1.0
        if repetition.quiet_p50_ms is not None and repetition.quiet_p99_ms is not None:
            assert 0.0 < repetition.quiet_p50_ms <= repetition.quiet_p99_ms < 1.01


def test_a_share_of_nothing_is_told(binary: Path, tmp_path: Path) -> None:
    alone = Conditions(command="get", arrival="open_loop", rate_share=0.5)
    with pytest.raises(InputError, match=r"get P1 .*load50%: found no closed loop"):
        observe(engine=binary, design=[alone], out=tmp_path / "bundle", timing=SHORT)
    assert list(tmp_path.iterdir()) == []
    assert not children()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a core for each side")
@pytest.mark.parametrize(("disturbances", "repetitions"), [(0, 2), (1, 3), (2, 4)])
def test_disturbed_points_are_measured_again(
    disturbances: int,
    repetitions: int,
    binary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = []

    def disturb(*args: Any, **options: Any) -> Repetition:
        repetition = measure_repetition(*args, **options)
        measured.append(repetition)
        flags = ["disturbed"] if len(measured) <= disturbances else []
        return repetition.model_copy(update={"flags": flags})

    module = "forecache.calibration.observe.observe"
    monkeypatch.setattr(f"{module}.measure_repetition", disturb)
    # Whatever this machine's cores do meanwhile.
    monkeypatch.setattr(f"{module}.CoreState.with_looks", lambda _, repetition, *_looks: repetition)
    # No bound on the time, so that a slow machine changes nothing.
    monkeypatch.setattr(f"{module}._AGAIN_SHARE", 1e3)
    bundle = observe(engine=binary, design=DESIGN[:1], out=tmp_path / "bundle", timing=SHORT)
    (point,) = bundle.points
    assert len(point.repetitions) == repetitions
    assert len(point.quiet_repetitions()) == 2


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a core for each side")
def test_a_machine_that_is_always_busy_is_not_measured_again_and_again(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "forecache.calibration.observe.observe"

    def disturb(*args: Any, **options: Any) -> Repetition:
        repetition = measure_repetition(*args, **options)
        return repetition.model_copy(update={"flags": ["disturbed"]})

    monkeypatch.setattr(f"{module}.measure_repetition", disturb)
    monkeypatch.setattr(f"{module}._AGAIN_SHARE", 1e3)
    monkeypatch.setattr(f"{module}._IN_VAIN", 3)
    bundle = observe(engine=binary, design=DESIGN[:2], out=tmp_path / "bundle", timing=SHORT)
    counts = [len(point.repetitions) for point in bundle.points]
    assert sum(counts) == 2 * SHORT.repetitions + 3
    assert min(counts) >= SHORT.repetitions


def test_when_time_is_up_every_point_has_been_measured_once(binary: Path, tmp_path: Path) -> None:
    hurried = replace(SHORT, longest_s=0.0, starts=4)
    bundle = observe(engine=binary, design=DESIGN[:2], out=tmp_path / "bundle", timing=hurried)
    assert [len(point.repetitions) for point in bundle.points] == [1, 1]
    assert len(bundle.manifest.starts) == 2
    assert "there was time for 2 of 4 windows: the machine is busy or slow" in (
        bundle.manifest.warnings
    )


def test_a_window_that_can_not_be_sampled_is_lost_and_no_other(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def fail_once(*args: Any, **options: Any) -> Repetition:
        measured.append(measure_repetition(*args, **options))
        if len(measured) == 2:
            raise SamplingError("perf didn't end within 10 s.")
        return measured[-1]

    module = "forecache.calibration.observe.observe"
    monkeypatch.setattr(f"{module}.measure_repetition", fail_once)
    monkeypatch.setattr(f"{module}._AGAIN_SHARE", 0.0)
    impatient = replace(SHORT, patience_s=0.0)
    bundle = observe(engine=binary, design=DESIGN[:2], out=tmp_path / "bundle", timing=impatient)
    assert sorted(len(point.repetitions) for point in bundle.points) == [1, 2]
    assert any("perf didn't end" in warning for warning in bundle.manifest.warnings)
    assert not children()
