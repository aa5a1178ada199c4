"""Baseline, burst and flow: what a steady load and a transfer get."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.hwprofiles import load_host
from forecache.hwprofiles.instances import LONGEST_BURST_S, list_instances
from forecache.hwprofiles.network import Bandwidth, Path, bandwidth_of, between, constant
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.over_time.cluster.moving import moving_path
from forecache.models.over_time.large_commands.scenario import LargeCommands
from forecache.models.over_time.large_commands.simulate import data_place, timeline
from forecache.models.prediction.caveats import not_covered
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario

GBYTE = 1e9


def path(baseline: float, burst: float, credit: float, flow: float = math.inf) -> Path:
    return Path([Bandwidth(baseline, burst, credit, flow)])


def test_a_transfer_spends_its_credit_first() -> None:
    """8 s at 10 Gbit/s until 72 Gbit of credit are gone, then 1 Gbit/s."""
    link = path(1.0, 10.0, 72.0)
    assert link.transfer_s(5 * GBYTE) == pytest.approx(4.0)
    assert link.transfer_s(10 * GBYTE) == pytest.approx(8.0)
    assert link.transfer_s(11 * GBYTE) == pytest.approx(8.0 + 8.0)
    assert link.steady_gbit_per_s() == 1.0
    assert link.first_gbit_per_s() == 10.0
    assert link.ends[0].burst_s == pytest.approx(8.0)


def test_one_connection_has_the_limit_of_a_flow() -> None:
    link = path(1.0, 10.0, 72.0, flow=5.0)
    # At 5 Gbit/s the credit lasts 18 s.
    assert link.transfer_s(11.25 * GBYTE) == pytest.approx(18.0)
    assert link.transfer_s(12.25 * GBYTE) == pytest.approx(18.0 + 8.0)
    assert link.transfer_s(5 * GBYTE, flows=2) == pytest.approx(4.0)
    # A flow below the baseline never needs the credit.
    slow = path(8.0, 10.0, 1.0, flow=5.0)
    assert slow.transfer_s(100 * GBYTE) == pytest.approx(160.0)


def test_each_end_has_its_own_credit() -> None:
    """Both burst for 4 s, then one for itself until it has its baseline, above the other's."""
    ends = Path([Bandwidth(1.0, 10.0, 36.0), Bandwidth(4.0, 10.0, 60.0)])
    assert ends.transfer_s(5 * GBYTE) == pytest.approx(4.0)
    assert ends.transfer_s(6 * GBYTE) == pytest.approx(4.0 + 8.0)
    assert Path([]).transfer_s(1e15) == 0.0


ends = st.builds(
    lambda baseline, more, credit, flow: Bandwidth(baseline, baseline + more, credit, flow),
    st.floats(0.1, 50),
    st.floats(0, 50),
    st.floats(0, 1e5),
    st.one_of(st.floats(0.1, 20), st.just(math.inf)),
)


@settings(max_examples=150)
@given(st.lists(ends, min_size=1, max_size=3), st.floats(1, 1e15), st.floats(0, 1e15))
def test_transfers_lie_between_burst_and_baseline(
    found: list[Bandwidth], size_bytes: float, more: float
) -> None:
    both = Path(found)
    gbit = size_bytes * 8e-9
    taken_s = both.transfer_s(size_bytes)
    assert taken_s >= gbit / both.first_gbit_per_s() * (1 - 1e-9)
    assert taken_s <= gbit / both.steady_gbit_per_s() * (1 + 1e-9)
    assert both.transfer_s(size_bytes + more) >= taken_s * (1 - 1e-9)
    assert both.transfer_s(size_bytes, flows=2) <= taken_s * (1 + 1e-9)
    # No end sends more than its bucket and its baseline allow.
    for end in found:
        sent = end.baseline_gbit_per_s * taken_s + end.credit_gbit
        assert gbit <= sent * (1 + 1e-9)


def test_instances_burst_for_minutes_to_an_hour() -> None:
    for row in list_instances():
        if row.burst_gbit_per_s == row.baseline_gbit_per_s or row.network != "credits":
            assert bandwidth_of(load_host(row.name).speed()).burst_s == math.inf, row.name
        else:
            burst_s = bandwidth_of(load_host(row.name).speed()).burst_s
            assert 300 <= burst_s <= LONGEST_BURST_S * (1 + 1e-9), row.name


def test_a_host_has_what_its_instance_has() -> None:
    speed = load_host("c7g.large").speed()
    found = bandwidth_of(speed)
    assert (found.baseline_gbit_per_s, found.burst_gbit_per_s) == (0.937, 12.5)
    assert found.flow_gbit_per_s == 5
    # A transfer of a GiB is done before any credit ends: at a flow.
    assert between(speed, speed).transfer_s(2**30) == pytest.approx(2**33 / 5e9)
    assert bandwidth_of(load_host("graviton3").speed()).burst_s == math.inf


@pytest.mark.parametrize(("given_gbit", "expected"), [(None, 5.0), (0.5, 0.5)])
def test_a_large_reply_is_one_flow(given_gbit: float | None, expected: float) -> None:
    data = {
        "kind": "large_commands",
        "host": "c7g.large",
        "engine_version": "8.0",
        "client": {"host": "c7g.large", "element_ns": 0.0},
        "network": {} if given_gbit is None else {"gbit_per_s": given_gbit},
        "data": {"strings": {"keys": 1}},
        "commands": [{"command": "get", "value_bytes": 2**29}],
    }
    scenario = LargeCommands.model_validate(data)
    place, _ = data_place(scenario)
    assert place.link.gbit_per_s == expected
    [timed] = timeline(scenario, place)
    assert timed.lasting.stream_ns >= 2**32 / expected
    assert timed.lasting.stream_ns < 1.5 * 2**32 / expected


def test_a_measured_network_has_no_bursts() -> None:
    assert constant(10.0).burst_s == math.inf
    assert Path([constant(10.0)]).transfer_s(10 * GBYTE) == pytest.approx(8.0)


def test_a_load_above_the_baseline_is_told_how_long_it_may_burst() -> None:
    system = System(
        load_host("c7g.large"), load_engine("valkey"), load_generator("memtier-benchmark")
    )

    def told(rate_rps: float) -> list[str]:
        workload = {"arrival": "open_loop", "rate_rps": rate_rps, "value_bytes": 10_000}
        scenario = Scenario.model_validate({"host": "c7g.large", "engine": "valkey"} | {
            "workload": workload | {"mix": {"get": 1}}
        })  # fmt: skip
        return [each for each in not_covered(scenario, system) if "Gbit/s" in each]

    assert told(5_000) == []
    [burst] = told(50_000)
    assert "4 Gbit/s, above the baseline of 0.937" in burst
    assert "for about 27 minutes (assumed)" in burst


def test_moved_slots_have_a_flow_between_the_nodes_instances() -> None:
    cluster: Any = SimpleNamespace(
        scenario=SimpleNamespace(cluster=SimpleNamespace(host="m7i.2xlarge"))
    )
    instance = moving_path(cluster, None)
    gbytes = GBYTE / 8
    assert instance.mean_bytes_per_s(GBYTE) == pytest.approx(5 * gbytes)
    # Terabytes outlast the credit: hardly more than the baseline.
    assert instance.mean_bytes_per_s(100_000 * GBYTE) == pytest.approx(3.125 * gbytes, rel=0.05)
    assert moving_path(cluster, 10.0).mean_bytes_per_s(GBYTE) == pytest.approx(10 * gbytes)
