"""Reads from replicas: who gets them, what they cost, how old they are, and levers of a bill."""

import math
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.models.cost.bill import CLIENTS, REPLICAS
from forecache.models.engines.profile import load_engine
from forecache.models.plan.answer import plan
from forecache.models.plan.bill import bill_lines, with_bill
from forecache.models.plan.levers import _of_bytes, bill_parts, find_levers, largest_part
from forecache.models.plan.offers import find_offers
from forecache.models.plan.schema import PlanScenario
from forecache.models.plan.shard import (
    ALL_OPERATIONS,
    NodePart,
    Offer,
    node_scenario,
    read_shares,
    reads_elsewhere,
    shard_loads,
    worst_loads,
)
from forecache.models.plan.trials import Trials
from forecache.models.prediction.replication import ZONE_ONE_WAY_MS, staleness_ms
from forecache.models.prediction.simulation import times_of
from forecache.models.scenario.schema import Followed
from forecache.models.step_times.persistence import check_persistence
from forecache.models.step_times.stages import stream_times
from forecache.sim.errors import InputError
from forecache.sim.statistics import Estimate

from .test_persistence import inputs
from .test_persistence import scenario as node
from .test_plan import changed, shortened

REPLICAS_OF = st.integers(0, 5)
ZONES = st.integers(1, 10)


def asked(reads_from: str = "primary", **fields: Any) -> PlanScenario:
    small = {
        "demand__reads_from": reads_from,
        "choices__instances": ["r7g.large"],
        "choices__engines": [{"engine": "valkey", "versions": ["9.1"]}],
        "choices__io_threads": [1],
    }
    return PlanScenario(**changed(**{**small, **fields}))


def offer(scenario: PlanScenario) -> Offer:
    [found] = find_offers(scenario)[0]
    return with_bill(scenario, found)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short runs."""
    shortened(monkeypatch)


@pytest.fixture
def here() -> Iterator[Executor]:
    """Threads of this process, which see what a test has replaced."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


# --- who is read from ----------------------------------------------------------------------------


@given(st.sampled_from(["primary", "any", "same_zone"]), REPLICAS_OF, ZONES)
def test_every_read_has_one_node(reads_from: Any, replicas: int, zones: int) -> None:
    nodes = [node % zones for node in range(1 + replicas)]
    shares = read_shares(reads_from, nodes, range(zones))
    assert shares.sum(axis=1) == pytest.approx(1.0)
    if reads_from == "primary":
        assert np.all(shares[:, 0] == 1.0)


@given(REPLICAS_OF, ZONES)
def test_no_more_reads_cross_zones_from_the_own_zone_than_from_any(
    replicas: int, zones: int
) -> None:
    own, any_, primary = (
        reads_elsewhere(reads_from, replicas=replicas, zones=zones)  # type: ignore[arg-type]
        for reads_from in ("same_zone", "any", "primary")
    )
    assert any_ == pytest.approx((zones - 1) / zones)
    assert primary == pytest.approx((zones - 1) / zones)
    # A zone with a node of the shard keeps its reads.
    assert own == pytest.approx(max(0.0, zones - 1 - replicas) / zones)


def test_reads_of_a_lost_node_go_to_those_that_are_left() -> None:
    any_, own = asked("any"), asked("same_zone")
    half = NodePart(0.5), NodePart(0.5, primary=False)
    assert shard_loads(any_, offer(any_)) == half
    for lost in ("node", "zone"):
        # Of one replica either it or its primary is left, which then has everything.
        assert shard_loads(any_, offer(any_), lost)[0] == ALL_OPERATIONS
        assert shard_loads(own, offer(own), lost)[0] == ALL_OPERATIONS
    primary, replica = shard_loads(own, offer(own))
    assert (primary.reads, replica.reads) == pytest.approx((1 / 3, 2 / 3))
    assert worst_loads(own, offer(own))[0] == ALL_OPERATIONS


def test_a_shard_without_loss_to_survive_needs_no_more_than_it_does_every_day() -> None:
    nothing = asked("any", objectives__losing_a_node="nothing")
    assert worst_loads(nothing, offer(nothing)) == shard_loads(nothing, offer(nothing))


def test_clients_of_all_nodes_together_send_what_is_demanded() -> None:
    own = asked("same_zone", choices__replicas=[2])
    found = offer(own)
    primary, replica = (
        node_scenario(own, found, 1, serving=10, load=load) for load in shard_loads(own, found)
    )
    whole = node_scenario(own, found, 1, serving=10)
    rates = [each.workload.rate_rps or 0.0 for each in (primary, replica, whole)]
    assert rates[0] + 2 * rates[1] == pytest.approx(rates[2])
    assert replica.follows is not None
    writes = 0.2 * rates[2]
    assert replica.follows.per_request * rates[1] == pytest.approx(writes)
    assert (primary.follows, replica.replicas, primary.replicas) == (None, 0, 2)


def test_without_replicas_or_reads_all_is_the_primarys() -> None:
    alone = asked("any", choices__replicas=[0])
    assert shard_loads(alone, offer(alone)) == (ALL_OPERATIONS,)
    writes = asked("any", demand__operations={"set": 60_000})
    assert shard_loads(writes, offer(writes)) == (ALL_OPERATIONS,)
    # Every zone has a replica, so the primary has nothing to do.
    reads = asked("same_zone", demand__operations={"get": 60_000}, choices__replicas=[3])
    assert [load.primary for load in shard_loads(reads, offer(reads))] == [False]


# --- what it costs -------------------------------------------------------------------------------


@given(st.integers(1, 4), st.integers(1, 5), st.integers(100, 2_000))
def test_traffic_of_reads_from_any_is_that_of_reads_from_the_primary(
    replicas: int, zones: int, value_bytes: int
) -> None:
    fields = {
        "choices__replicas": [replicas],
        "demand__zones": zones,
        "demand__value_bytes": value_bytes,
        "objectives__losing_a_node": "data",
    }
    bills = {name: offer(asked(name, **fields)) for name in ("primary", "any", "same_zone")}
    lines = {
        name: {line.what: line.usd for line in bill_lines(each, 3)} for name, each in bills.items()
    }
    clients = {name: each.get(CLIENTS, 0.0) for name, each in lines.items()}
    assert clients["any"] == pytest.approx(clients["primary"])
    assert clients["same_zone"] <= clients["any"] * (1 + 1e-12)
    assert len({each.get(REPLICAS, 0.0) for each in lines.values()}) == 1
    for name, each in bills.items():
        assert each.bill_usd(3) == pytest.approx(sum(lines[name].values()))


# --- what a replica does -------------------------------------------------------------------------


def test_a_replicated_write_takes_more_for_smaller_batches_and_larger_values() -> None:
    def write_ns(at_once: float = 1.0, value_bytes: int = 512, **other: Any) -> float:
        follows = {"per_request": 0.5, "at_once": at_once}
        workload = {"value_bytes": value_bytes}
        return stream_times(inputs(node(follows=follows, workload=workload, **other))).write_ns

    alone, many = write_ns(), write_ns(at_once=1e6)
    assert alone > write_ns(at_once=2) > many
    # Half of the difference to the limit is left with two at once.
    assert write_ns(at_once=2) - many == pytest.approx((alone - many) / 2, rel=1e-3)
    assert write_ns(value_bytes=4096) > alone
    assert write_ns(tls=True) == alone


def test_every_request_of_a_replica_carries_its_part_of_the_writes() -> None:
    plain = times_of(inputs(node(workload={"mix": {"get": 1}})))
    case = inputs(node(workload={"mix": {"get": 1}}, follows={"per_request": 0.5}))
    added_ps = times_of(case).execute_by_code_ps - plain.execute_by_code_ps
    assert added_ps / 1000 == pytest.approx(0.5 * stream_times(case).write_ns, abs=0.01)


def test_a_replica_takes_less_for_a_write_than_a_primary_that_answers_it() -> None:
    case = inputs(node(follows={"per_request": 1.0}, workload={"mix": {"set": 1}}))
    times = times_of(inputs(node(workload={"mix": {"set": 1}})))
    answered_ps = times.execute_by_code_ps[0] + times.parse_by_code_ps[0]
    answered_ps += times.stall_ps[0].mean() + times.recv_ps + times.send_ps
    assert 0 < 1000 * stream_times(case).write_ns < answered_ps


@pytest.mark.parametrize(
    ("mix", "message"), [({"get": 0.5, "set": 0.5}, "write"), ({"other": []}, "other")]
)
def test_replicas_follow_writes_alone(mix: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Followed(per_request=1.0, mix=mix)


def test_memcached_has_no_replicas() -> None:
    case = node(engine="memcached", follows={"per_request": 1.0})
    with pytest.raises(InputError, match="Memcached has no replicas"):
        check_persistence(case, load_engine("memcached"))


# --- how old its answers are ---------------------------------------------------------------------


def _served(p50: Estimate | None, *, one_way_us: float = 30.0) -> Any:
    speed = SimpleNamespace(network_one_way_us=one_way_us)
    system = SimpleNamespace(inputs=lambda _: SimpleNamespace(speed=speed))
    case = SimpleNamespace(scenario=SimpleNamespace(same_host=False))
    return SimpleNamespace(estimate=lambda _: p50, system=system, case=case)


def test_a_write_takes_its_way_and_waits_as_a_read_does() -> None:
    primary = _served(Estimate(0.26, 0.16, 0.46))
    replica = _served(Estimate(0.16, 0.11, 0.36))
    near = staleness_ms(primary, replica, "p50_ms", between_zones=False)
    assert near is not None
    assert near.value == pytest.approx(0.1 + 0.03 + 0.1)
    assert (near.low, near.high) == pytest.approx((0.03 + 0.05, 0.4 + 0.03 + 0.3))
    far = staleness_ms(primary, replica, "p50_ms", between_zones=True)
    assert far is not None
    assert far.value - near.value == pytest.approx(ZONE_ONE_WAY_MS.value - 0.03)
    assert staleness_ms(primary, _served(None), "p50_ms", between_zones=True) is None


# --- plans ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("brief")
def test_reads_from_the_primary_are_the_plan_that_says_nothing(here: Executor) -> None:
    said = plan(changed(demand__reads_from="primary", demand__zones=1), executor=here).to_dict()
    unsaid = plan(changed(demand__zones=1), executor=here).to_dict()
    for each in (said, unsaid):
        del each["scenario"], each["provenance"]
    assert said == unsaid
    assert "replica_reads" not in said["plans"][0]


@pytest.mark.usefixtures("brief")
def test_what_a_shard_serves_is_that_of_its_busiest_node() -> None:
    own = asked("same_zone")
    trials = Trials(own, offer(own), seed=1)
    served = [
        trials.node_capacity_rps(1, serving=10, load=load) / load.part(own.demand)
        for load in trials.loads
    ]
    assert trials.capacity_rps(1, serving=10) == min(served)
    alone = Trials(asked(), offer(asked()), seed=1)
    assert alone.capacity_rps(1, serving=10) == alone.node_capacity_rps(
        1, serving=10, load=ALL_OPERATIONS
    )
    # Two nodes share the reads, so that a shard serves more, but not twice as much.
    whole = alone.capacity_rps(1, serving=10)
    assert (
        whole
        < Trials(asked("any"), offer(asked("any")), seed=1).capacity_rps(1, serving=10)
        < 2 * whole
    )


@pytest.mark.usefixtures("brief")
def test_levers_keep_the_setting_and_add_up(here: Executor) -> None:
    found = plan(
        changed(
            demand__value_bytes=2_000,
            choices__instances=["r7g.large"],
            choices__engines=[{"engine": "valkey", "versions": ["9.1"]}],
        ),
        executor=here,
    )
    best = found.plans[0]
    part = found.largest_part
    assert part is not None
    assert part.what == "traffic between zones"
    assert part.usd_per_month == pytest.approx(part.share * part.of_usd_per_month)
    assert sum(bill_parts(best.bill).values()) == pytest.approx(part.of_usd_per_month)
    assert part.share > 0.5
    levers = found.levers
    assert len(levers) == 5
    assert [each.saves_usd.value for each in levers] == sorted(
        (each.saves_usd.value for each in levers), reverse=True
    )
    for lever in levers:
        assert replace(lever.plan.setting, replicas=1) == best.setting
        assert lever.plan.bill_usd_per_month is not None
        saved = part.of_usd_per_month - lever.plan.bill_usd_per_month
        assert lever.saves_usd.value == pytest.approx(saved)
        assert lever.saves_usd.low <= lever.saves_usd.value <= lever.saves_usd.high
    by_zone = [each for each in levers if each.change.get("demand.reads_from") == "same_zone"]
    crossing = [each.plan.replica_reads.crossing for each in by_zone if each.plan.replica_reads]
    assert sorted(crossing) == pytest.approx([0.0, 1 / 3])
    for each in by_zone:
        read = each.plan.replica_reads
        assert read is not None
        assert read.stale_p50_ms is not None
        assert read.stale_p99_ms is not None
        assert ZONE_ONE_WAY_MS.low < read.stale_p50_ms.value < read.stale_p99_ms.value
        assert 0.0 < read.writes_busy < 1.0 - read.cpu_headroom
    [one_zone] = [each for each in levers if "demand.zones" in each.change]
    assert bill_parts(one_zone.plan.bill).keys() == {"nodes"}
    assert [each.serving for each in one_zone.plan.failures if each.what == "zone"] == [0]


def test_where_nodes_are_most_of_the_bill_there_are_no_levers(here: Executor) -> None:
    scenario = asked()
    lines = bill_lines(offer(scenario), 3)
    nodes = [line for line in lines if line.what not in (CLIENTS, REPLICAS)]
    best: Any = SimpleNamespace(bill=nodes, bill_usd_per_month=sum(each.usd for each in nodes))
    assert largest_part(best) is None  # one part alone is no news
    best.bill = [*nodes, replace(nodes[0], what=CLIENTS, usd=1.0)]
    best.bill_usd_per_month += 1.0
    part = largest_part(best)
    assert part is not None
    assert part.what == "nodes"
    assert find_levers(scenario, offer(scenario), best, seed=1, executor=here) == []
    best.bill_usd_per_month = None
    assert largest_part(best) is None


def test_batches_leave_other_commands_as_they_are() -> None:
    scenario = asked(demand__operations={"get": 1_000, "hgetall": 500})
    [change] = [x for x in _of_bytes(scenario, offer(scenario)) if "MGET" in x.what]
    [batched] = change.scenarios
    found = batched.demand.operations.by_command
    assert {name: each.a_second for name, each in found.items()} == {"mget": 100, "hgetall": 500}


@pytest.mark.usefixtures("brief")
def test_a_lost_node_leaves_its_reads_to_the_others(here: Executor) -> None:
    found = plan(
        changed(
            demand__reads_from="any",
            choices__instances=["r7g.large"],
            choices__io_threads=[1],
            objectives__cpu_headroom=0.05,
        ),
        executor=here,
    )
    best = found.plans[0]
    assert best.replica_reads is not None
    for loss in best.failures:
        # The one that is left has all reads and writes, and holds: that is what sized the plan.
        assert loss.cpu_headroom < best.horizon.cpu_headroom
        assert math.isclose(loss.rate_rps, best.horizon.rate_rps)
    [node_lost] = [loss for loss in best.failures if loss.what == "node"]
    assert node_lost.holds
