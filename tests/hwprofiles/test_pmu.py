"""Hardware counters: every file is whole, and the processor at hand is recognised."""

import pytest

from forecache.hwprofiles.files import parse
from forecache.hwprofiles.pmu import CounterEvent, Pmu, list_pmus, pmu_of
from forecache.sim.errors import InputError

CANONICAL = {
    "cycles",
    "instructions",
    "l1d_refill",
    "l2_refill",
    "llc_miss",
    "mem_stall",
    "front_stall",
    "dtlb_walk",
    "branch_miss",
}


@pytest.mark.parametrize("pmu_id", sorted(list_pmus()))
def test_every_microarchitecture_has_the_canonical_events(pmu_id: str) -> None:
    pmu = list_pmus()[pmu_id]
    assert pmu.id == pmu_id
    assert set(pmu.events) >= CANONICAL
    assert "instructions_per_cycle" in pmu.metrics


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd40\n", "neoverse-v1"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "neoverse-n1"),
        ("CPU implementer\t: 0x61\nCPU part\t: 0xd40\n", None),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\n", "ice-lake"),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n", "sapphire-rapids"),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n", None),
        ("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n", "zen4"),
        ("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n", None),
        ("vendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n", "zen5"),
        ("", None),
    ],
)
def test_processors(cpuinfo: str, expected: str | None) -> None:
    pmu = pmu_of(cpuinfo)
    assert (pmu and pmu.id) == expected


def test_perf_takes_the_events() -> None:
    spr = list_pmus()["sapphire-rapids"]
    assert spr.perf_events()[:2] == ["cycles", "instructions"]
    stall = spr.events["mem_stall"].perf("mem_stall", pmu=spr.pmu)
    assert stall == "cpu/event=0x47,umask=0x3,cmask=0x3,name=mem_stall/"


def test_metrics_need_all_their_counters() -> None:
    v1 = list_pmus()["neoverse-v1"]
    # Facts of arithmetic: half of the slots stall, four in five operations retire, no mispredicts.
    counts = {
        "cycles": 1000.0,
        "instructions": 2500.0,
        "stall_slot": 4000.0,
        "op_spec": 5000.0,
        "op_retired": 4000.0,
        "branch_miss_spec": 0.0,
    }
    derived = v1.derived(counts)
    assert derived == {
        "instructions_per_cycle": 2.5,
        "bad_speculation": pytest.approx(0.2 * 0.5),
    }
    assert v1.derived({}) == {}
    assert v1.derived({"cycles": 0.0, "instructions": 1.0}) == {}


def test_an_event_is_generic_or_coded() -> None:
    with pytest.raises(ValueError, match="either generic or event"):
        CounterEvent(name="X", source="s")
    with pytest.raises(ValueError, match="either generic or event"):
        CounterEvent(name="X", source="s", generic="cycles", event=1)


def test_a_file_that_contradicts_itself_is_refused() -> None:
    data = list_pmus()["zen5"].model_dump()
    data["events"]["cycles"]["source"] = "nowhere"
    with pytest.raises(InputError, match="cycles names 'nowhere'"):
        parse(Pmu, data, file="zen5.yaml")
    data = list_pmus()["zen5"].model_dump()
    data["metrics"]["instructions_per_cycle"]["formula"] = "instructions / heartbeats"
    with pytest.raises(InputError, match="heartbeats"):
        parse(Pmu, data, file="zen5.yaml")
