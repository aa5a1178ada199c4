"""perf's counters and VTune's reports, from programs that replay them, at a live engine."""

from pathlib import Path

import pytest

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.observe.profilers.attribution import Stages
from forecache.calibration.observe.profilers.perf import Counters
from forecache.calibration.observe.profilers.vtune import Vtune, profile_of_reports
from forecache.hwprofiles.pmu import list_pmus

POINT = Conditions(command="get", clients=10)
REPORTS = Path(__file__).parent / "reports"


@pytest.mark.usefixtures("fake_programs")
def test_counters_per_request(binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "forecache.calibration.observe.profilers.perf.this_pmu", lambda: list_pmus()["neoverse-v1"]
    )
    monkeypatch.setenv("FAKE_PERF_ABSENT", "llc_miss")
    (found,) = Counters(window_s=0.2).profile(binary, [POINT])
    counters = {counter.event: counter for counter in found.profile.counters}
    requests = found.profile.requests
    assert requests is not None
    assert list(counters) == list(list_pmus()["neoverse-v1"].events)
    cycles = counters["cycles"]
    assert cycles.per_request == pytest.approx(1e6 / requests, rel=0.01)
    assert cycles.running_fraction == 1.0
    assert counters["l1d_refill"].running_fraction == 0.5
    # What the processor doesn't have is absent, not zero, and so is what is derived from it.
    assert counters["llc_miss"].per_request is None
    assert found.profile.metrics["instructions_per_cycle"] == pytest.approx(2.0)
    assert found.profile.reads_per_request == pytest.approx(1.0, rel=0.05)
    (thread,) = found.profile.threads
    assert thread.role == "main"
    assert {cost.stage: cost.share for cost in thread.stages} == {
        "write": 0.4,
        "read": 0.2,
        "execute": 0.2,
        "other": 0.2,
    }
    assert found.profile.unattributed == pytest.approx(0.2)


@pytest.mark.usefixtures("fake_programs")
def test_vtune_collects_at_a_live_engine(binary: Path) -> None:
    (found,) = Vtune(window_s=0.2).profile(binary, [POINT])
    profile = found.profile
    assert profile.tool.startswith("Intel(R) VTune(TM)")
    assert profile.requests is not None
    counters = {counter.event: counter.per_request for counter in profile.counters}
    assert counters["instructions"] == pytest.approx(7e9 / profile.requests)
    assert counters["l3_load_miss"] == pytest.approx(1e6 / profile.requests)
    assert {cost.stage: cost.share for cost in profile.threads[0].stages} == {
        "write": 0.5,
        "lookup": 0.25,
        "parse": 0.2,
        "other": 0.05,
    }


def test_a_report_without_times_has_no_shares(tmp_path: Path) -> None:
    file = tmp_path / "hotspots.csv"
    head = (REPORTS / "hotspots.csv").read_text().splitlines()[0]
    file.write_text(f"{head}\nlookupKey,,,,,valkey-server,lookupKey,[Unknown],0x1\n")
    stages = Stages("valkey", "9.1")
    profile = profile_of_reports([file], stages, given=POINT, requests=1, tool="vtune")
    assert profile.unattributed is None
    assert profile.threads[0].stages == []
