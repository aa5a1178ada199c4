"""Serverless caches: what growth takes, limits, what is held, what is billed; nodes are made up."""

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.hwprofiles.files import parse
from forecache.models.over_time.caching import Filling
from forecache.models.over_time.cluster import cluster as cluster_module
from forecache.models.over_time.cluster.nodes import ConnectionWork, NodeKind
from forecache.models.over_time.cluster.surrogate import LOADS, QUANTILES, Surrogate
from forecache.models.over_time.serverless import run as run_module
from forecache.models.over_time.serverless import scaling as scaling_module
from forecache.models.over_time.serverless import schema as versions_module
from forecache.models.over_time.serverless.run import Meter, ServerlessCache
from forecache.models.over_time.serverless.scaling import behind_proxy, hop, let_through
from forecache.models.over_time.serverless.schema import (
    ServerlessScenario,
    known_versions,
    load_version,
)
from forecache.models.prices.table import load_prices
from forecache.models.scenario.workload import HotSet, HotSetPopularity, Zipf
from forecache.sim.errors import InputError

THREAD_RPS = 10_000.0


def surrogate(threads):
    """A node of multiples of 10,000 requests a second, each in a tenth of a ms."""
    rps = THREAD_RPS * threads
    latency = ((0.1,) * len(QUANTILES),) * 2
    busy = ((0.0, 0.02, 0.98, 1.0), (0.0,) * 4)
    return Surrogate(rps, 1e12 / rps, (0.02, 0.98), latency, (0.1, 0.1), *busy, 0.0)


def make(monkeypatch, surrogate_of_threads):
    """Nodes of this surrogate take the place of simulated ones."""

    def node_kind(scenario, *, described=None, **_):
        nodes = described or scenario.cluster
        work = ConnectionWork(10**6, 0, 10**6, 0, 10)
        kind = NodeKind("made", surrogate_of_threads(nodes.io_threads), work, 10**6, 511)
        return kind, 1e8, 1000.0

    monkeypatch.setattr(cluster_module, "node_kind", node_kind)
    monkeypatch.setattr(run_module, "node_kind", node_kind)


@pytest.fixture
def made(monkeypatch):
    make(monkeypatch, surrogate)


NEAR = {"cross_zone_rtt_ms": [0.06], "first_ecpu_per_s": 2_000, "let_through": 1.0}
"""One zone, in effect, a small first limit, and then all that a shard can do."""


def scenario(version="8.0", mechanisms=None, **more):
    data = {
        "kind": "serverless",
        "version": version,
        "duration_s": 60,
        "data": {"keys": 100_000, "value_bytes": 100},
        "demand": {"rate_rps": 1_000},
        "mechanisms": NEAR | (mechanisms or {}),
    } | more
    if data["duration_s"] > 120:
        # What takes minutes is no different in steps of a second.
        data = {"step_s": 1.0} | data
    return parse(ServerlessScenario, data, file="test")


def ran(asked, seed=1):
    cache = ServerlessCache(asked, seed=seed, progress=lambda _line: None)
    run = cache.run()
    facts = {fact.name: fact.value for fact in run.facts}
    return cache, run, facts, {(each.panel, each.name): each.values for each in run.series}


@pytest.mark.usefixtures("made")
def test_what_an_empty_cache_lets_through_is_served_at_once():
    _, run, facts, series = ran(scenario(demand={"rate_rps": 1_400}))
    assert series["throughput", "answered"].mean() == pytest.approx(1_400, rel=0.02)
    assert series["shards", "shards"].max() == 1
    assert facts["failed"] == 0
    assert not run.marks


@pytest.mark.usefixtures("made")
def test_the_first_limit_holds_until_a_core_was_enabled():
    times = {"detect_s": 10, "enable_s": 5}
    _, run, _, series = ran(
        scenario(mechanisms=times, demand={"rate_rps": 5_000}, report_s=1, duration_s=40)
    )
    answered = series["throughput", "answered"]
    assert answered[:14].mean() == pytest.approx(2_000, rel=0.02)
    assert answered[20:].mean() == pytest.approx(5_000, rel=0.05)
    assert run.marks[0].time_s == pytest.approx(15)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(("version", "fewest", "most"), [("7.2", 14, 32), ("8.0", 2, 2)])
def test_a_version_that_enables_cores_needs_fewer_shards(version, fewest, most):
    asked = scenario(version, duration_s=900, demand={"rate_rps": 100_000})
    _, _, facts, series = ran(asked)
    # 100,000 at no more than three quarters of 10,000 or 80,000; an overload may double that.
    assert fewest <= facts["shards at the end"] <= most
    assert series["throughput", "answered"][-1] == pytest.approx(100_000, rel=0.02)


@pytest.mark.usefixtures("made")
def test_a_scale_out_takes_what_its_parts_take():
    asked = scenario(
        "8.0",
        {"io_threads": [1], "detect_s": 10, "provision_s": 60, "first_ecpu_per_s": 1e9},
        duration_s=300,
        demand={"rate_rps": 9_000},
        filled=1.0,
    )
    cache, run, _, _ = ran(asked)
    [growth] = cache.shards.growths
    assert growth.begun_s == 10
    assert growth.provisioned_s == 70
    assert growth.moved_s > 75  # a look of five seconds comes first
    assert growth.keys_moved == pytest.approx(50_000, rel=0.02)
    [table] = run.tables
    assert table.rows[0][3:5] == [60, pytest.approx(growth.moved_s - 70)]


@pytest.mark.usefixtures("made")
def test_threads_of_their_own_move_slots_faster_than_main_threads():
    def moved_s(method):
        mechanisms = {"io_threads": [1], "migration": method, "first_ecpu_per_s": 1e9}
        asked = scenario("8.0", mechanisms, duration_s=900, demand={"rate_rps": 9_000}, filled=1.0)
        growth = ran(asked)[0].shards.growths[0]
        return growth.moved_s - growth.provisioned_s

    assert moved_s("threads") < 0.5 * moved_s("key_by_key")


@pytest.mark.usefixtures("made")
def test_what_is_kept_ready_is_there_from_the_start_and_billed():
    kept = {"least": [{"at_s": 0, "ecpu_per_s": 50_000}]}
    asked = scenario("7.2", demand={"rate_rps": 40_000}, limits=kept)
    cache, run, facts, series = ran(asked)
    assert series["throughput", "answered"][0] == pytest.approx(40_000, rel=0.05)
    assert not run.marks
    assert cache.meter.billed_ecpu == pytest.approx(60 * 50_000, rel=1e-6)
    assert cache.meter.ecpu == pytest.approx(60 * 40_000, rel=0.02)
    assert facts["failed"] == 0


@pytest.mark.usefixtures("made")
def test_what_is_to_be_kept_ready_later_takes_time():
    kept = {"least": [{"at_s": 100, "ecpu_per_s": 50_000}]}
    cache, _, facts, series = ran(scenario("7.2", duration_s=600, limits=kept))
    assert series["shards", "shards"][10] == 1
    first, *_, last = cache.shards.growths
    assert first.begun_s > 100
    assert last.moved_s < 600
    assert facts["until 50,000 ECPU/s are ready"] == pytest.approx(last.moved_s - 100, abs=1.5)
    assert cache.shards.capacity_rps * 0.75 > 50_000


@pytest.mark.usefixtures("made")
def test_a_largest_rate_is_not_exceeded():
    limits = {"most_ecpu_per_s": 3_000}
    _, _, facts, series = ran(scenario(demand={"rate_rps": 5_000}, limits=limits, duration_s=120))
    assert series["throughput", "answered"].max() < 3_050
    assert facts["failed"] + facts["turned away: no free connection"] > 0


@pytest.mark.usefixtures("made")
def test_reads_from_replicas_serve_three_times_as_much_of_an_empty_cache():
    asked = scenario(
        demand={"rate_rps": 5_000, "mix": {"get": 1}}, limits={"reads_from_replicas": True}
    )
    _, _, facts, series = ran(asked)
    assert series["throughput", "answered"][:5].mean() == pytest.approx(5_000, rel=0.05)
    assert facts["failed"] == 0


@pytest.mark.usefixtures("made")
def test_a_closed_loop_is_littles_law():
    asked = scenario(
        demand={"closed_loop": True},
        clients={"connections": 20, "own_ms": 9.0},
        mechanisms={"first_ecpu_per_s": 1e9},
    )
    cache, _, facts, series = ran(asked)
    latency_ms = 9.0 + hop(cache.mechanisms).mean_ms + facts["mean latency at the end"]
    assert series["throughput", "answered"][-1] == pytest.approx(20 / latency_ms * 1e3, rel=0.02)
    assert facts["turned away: no free connection"] == 0


@pytest.mark.parametrize("machines", [1, 4])
@pytest.mark.parametrize(
    ("connections", "least", "most"),
    [(60, 0.3, 0.5), (120, 0.7, 0.9), (160, 0.9, 0.98), (800, 1, 1)],
)
def test_a_closed_loop_is_littles_law_up_to_an_overload(
    connections, least, most, machines, monkeypatch
):
    """A node's latency rises as 1/(1 - utilisation); beyond its capacity requests queue."""

    def steep(threads):
        means = tuple(0.1 + 0.02 / (1.0 - load) for load in LOADS)
        latency = tuple((mean,) * len(QUANTILES) for mean in means)
        busy = ((0.0, *LOADS, 1.0), (0.0,) * (len(LOADS) + 2))
        return Surrogate(1e5 * threads, 1e7 / threads, LOADS, latency, means, *busy, 0.0)

    make(monkeypatch, steep)
    asked = scenario(
        "7.2",
        demand={"closed_loop": True},
        clients={
            "connections": connections // machines,
            "own_ms": 1.0,
            "machines": [{"at_s": 0, "count": machines}],
        },
        mechanisms={
            "first_ecpu_per_s": 1e9,
            "scale_above": 0.999,
            "detect_s": 3_000,
            "let_through": 1.0,
        },
    )
    cache, _, facts, series = ran(asked)
    answered = series["throughput", "answered"][-1]
    latency_ms = 1.0 + hop(cache.mechanisms).mean_ms + facts["mean latency at the end"]
    # Latency is recorded by whole percents of utilisation, rounded down.
    assert answered * latency_ms * 1e-3 == pytest.approx(connections, rel=0.05)
    assert least * 0.999 <= answered / 1e5 <= most * 1.001


@pytest.mark.usefixtures("made")
def test_an_empty_cache_makes_a_closed_loop_wait():
    asked = scenario(
        demand={"closed_loop": True}, clients={"connections": 100, "own_ms": 9.0}, duration_s=10
    )
    cache, _, facts, series = ran(asked)
    assert series["throughput", "answered"][5:].mean() == pytest.approx(2_000, rel=0.01)
    latency_ms = 9.0 + hop(cache.mechanisms).mean_ms + facts["mean latency at the end"]
    assert latency_ms == pytest.approx(100 / 2_000 * 1e3, rel=0.03)


@pytest.mark.usefixtures("made")
def test_a_slot_above_its_limit_holds_up_its_shard_and_no_other():
    asked = scenario(
        "7.2",
        {"slot_ecpu_per_s": 500, "detect_s": 3_000},
        shards=4,
        filled=1.0,
        demand={"rate_rps": 8_000, "mix": {"get": 1}},
        data={"keys": 100_000, "value_bytes": 100, "popularity": {"zipf": 1.0}},
    )
    cache, _, _, series = ran(asked)
    slots = cache.shards.slots
    expected = 0.0
    for shard in range(4):
        shares = slots.shares[slots.owners == shard]
        expected += min(8_000 * shares.sum(), 500 * shares.sum() / shares.max())
    assert expected < 0.95 * 8_000
    assert expected > 1.1 * 500 / slots.shares.max()
    assert series["throughput", "answered"][-50:].mean() == pytest.approx(expected, rel=0.02)


@pytest.mark.usefixtures("made")
def test_data_above_its_largest_size_is_evicted_or_refused():
    def end(expiring):
        limits = {"most_gb": 0.05, "expiring": expiring}
        asked = scenario(demand={"rate_rps": 1_400, "mix": {"set": 1}}, limits=limits)
        cache, _, facts, series = ran(asked)
        assert series["data", "data"].max() <= 0.05e9 * 1.001
        return cache, facts

    evicting, facts = end(True)
    assert facts["evicted keys"] > 0
    assert facts["writes that failed because there was no room"] == 0
    refusing, facts = end(False)
    assert facts["evicted keys"] == 0
    assert facts["writes that failed because there was no room"] > 0
    assert evicting.filling.held == pytest.approx(refusing.filling.held, rel=0.01)


@pytest.mark.usefixtures("made")
def test_the_same_seed_gives_the_same_run():
    asked = scenario(demand={"ramp_to_rps": 50_000}, duration_s=300)
    _, first, _, _ = ran(asked, seed=3)
    _, second, _, _ = ran(asked, seed=3)
    assert first.to_dict() == second.to_dict()


@given(st.integers(0, 30))
@settings(max_examples=30, deadline=None)
def test_draws_stay_in_their_ranges(draw):
    for name in known_versions():
        version = load_version(name)
        drawn = version.mechanisms(draw=draw)
        for field, number in version.numbers.items():
            if number.low is None:
                assert getattr(drawn, field) == number.best
            else:
                assert number.low * 0.999 <= getattr(drawn, field) <= number.high * 1.001


def test_a_proxy_adds_its_time_and_the_way_between_zones():
    mechanisms = load_version("8.0").mechanisms(
        NEAR | {"cross_zone_rtt_ms": [1.06], "same_zone_rtt_ms": 0.06, "zones": 4, "proxy_ms": 0.5}
    )
    found = behind_proxy(surrogate(1), mechanisms)
    assert found.mean_ms[0] == pytest.approx(0.1 + 0.5 + 0.75 * 1.0)
    assert found.latency(0.02, 0.2) == pytest.approx(0.6)
    assert found.latency(0.02, 0.5) == pytest.approx(1.6)
    assert found.capacity_rps == surrogate(1).capacity_rps


def test_a_shard_is_no_busier_than_what_is_let_through_makes_it():
    rising = tuple((0.1 / (1.0 - load),) * len(QUANTILES) for load in LOADS)
    means = tuple(row[0] for row in rising)
    busy = ((0.0, *LOADS, 1.0), (0.0,) * (len(LOADS) + 2))
    whole = Surrogate(1e5, 1e7, LOADS, rising, means, *busy, 0.0)
    half = let_through(whole, 0.5)
    assert half.capacity_rps == 5e4
    assert float(half.mean(1.0)) == pytest.approx(float(whole.mean(0.5)), rel=0.01)
    for load in (0.1, 0.4, 0.8):
        assert half.latency(load, 0.99) == pytest.approx(whole.latency(0.5 * load, 0.99), rel=0.02)
        assert half.busy([load])[0] == pytest.approx(0.5 * load, rel=0.05)
    assert let_through(whole, 1.0) is whole


@pytest.mark.usefixtures("made")
def test_what_is_not_let_through_waits_and_is_answered_when_the_cache_has_grown():
    mechanisms = {"let_through": 0.5, "detect_s": 5, "enable_s": 1, "first_ecpu_per_s": 1e9}
    asked = scenario(mechanisms=mechanisms, demand={"rate_rps": 5_500}, report_s=1)
    _, _, facts, series = ran(asked)
    answered = series["throughput", "answered"]
    assert answered[1:5].max() <= 0.5 * THREAD_RPS * 1.01
    assert answered[-1] == pytest.approx(5_500, rel=0.02)
    assert facts["failed"] == 0


@pytest.mark.usefixtures("made")
def test_an_operator_that_pauses_blocks_less_and_takes_longer():
    def moved(most_blocked):
        mechanisms = {"io_threads": [1], "migration": "key_by_key", "first_ecpu_per_s": 1e9}
        mechanisms |= {"most_blocked": most_blocked}
        asked = scenario("8.0", mechanisms, duration_s=900, demand={"rate_rps": 9_000}, filled=1.0)
        growth = ran(asked)[0].shards.growths[0]
        return growth.moved_s - growth.provisioned_s

    assert moved(0.1) > 1.5 * moved(1.0)


POPULARITIES = st.one_of(
    st.just("uniform"),
    st.floats(0.2, 1.5).map(lambda exponent: Zipf(zipf=exponent)),
    st.just(HotSetPopularity(hot_set=HotSet(keys=0.1, requests=0.9))),
)


@given(POPULARITIES, st.integers(10, 10**6), st.lists(st.floats(0, 1e6), max_size=8))
@settings(max_examples=60, deadline=None)
def test_a_filling_holds_no_more_than_there_is_and_room_for(popularity, keys, writes):
    filling = Filling(keys=keys, popularity=popularity, filled=0.0)
    most = 0.5 * keys
    before = 0.0
    for count in writes:
        assert filling.write(count, most=most, evicts=True) == 0.0
        assert before <= filling.held * (1 + 1e-9)
        assert filling.held <= most * (1 + 1e-6)
        before = filling.held
    assert 0.0 <= filling.hit_rate <= 1.0
    if popularity != "uniform":
        # What is named often is there more often.
        assert filling.hit_rate >= filling.held / keys * (1 - 1e-6)


def test_distinct_keys_of_uniform_writes():
    filling = Filling(keys=10_000_000, popularity="uniform", filled=0.0)
    filling.write(10_000_000, most=math.inf, evicts=True)
    assert filling.held == pytest.approx(1e7 * (1 - math.exp(-1)), rel=1e-9)
    assert filling.hit_rate == pytest.approx(1 - math.exp(-1), rel=1e-9)


def test_a_cache_that_is_filled_holds_that_share():
    filling = Filling(keys=1_000, popularity=Zipf(zipf=1.0), filled=0.4)
    assert filling.held == pytest.approx(400, rel=1e-6)
    assert filling.hit_rate > 0.6


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": "9.9"}, "field 'version': found '9.9'; valid is 7.2, 8.0"),
        ({"demand": {"rate_rps": 1, "closed_loop": True}}, "one of rate_rps"),
        ({"demand": {"rate_rps": 1, "mix": {"get": 0.5, "hset": 0.5}}}, "mix"),
        ({"mechanisms": {"haste": 1}}, "mechanisms.haste"),
        ({"mechanisms": {"detect_s": -1}}, "mechanisms.detect_s"),
        ({"mechanisms": {"migration": "magic"}}, "mechanisms.migration"),
        ({"mechanisms": {"cross_zone_rtt_ms": [-1]}}, "mechanisms.cross_zone_rtt_ms"),
        ({"mechanisms": {"io_threads": [4, 1]}}, "mechanisms.io_threads"),
        (
            {"limits": {"most_ecpu_per_s": 1e3, "least": [{"at_s": 0, "ecpu_per_s": 2e3}]}},
            "limits.least[0].ecpu_per_s",
        ),
        ({"limits": {"most_gb": 1, "least_gb": 2}}, "limits.least_gb"),
        ({"clients": {"machines": [{"at_s": 5, "count": 1}]}}, "machines"),
        ({"step_s": 5}, "step_s"),
    ],
)
def test_a_wrong_field_is_told(change, told):
    with pytest.raises(InputError, match=re.escape(told)):
        scenario(**change)


def test_every_number_of_a_version_has_an_origin():
    for name in known_versions():
        version = load_version(name)
        assert version.id == name
        for number in version.numbers.values():
            assert number.method
            assert number.source in version.sources or number.kind == "assumed"


@pytest.mark.usefixtures("made")
def test_more_connections_than_proxies_take_are_refused():
    asked = scenario(
        demand={"closed_loop": True},
        clients={"connections": 100, "own_ms": 9.0, "machines": [{"at_s": 0, "count": 2}]},
        mechanisms={"most_connections": 50, "first_ecpu_per_s": 1e9},
    )
    _, run, facts, series = ran(asked)
    assert any("150 connections" in warning for warning in run.warnings)
    latency_ms = 9.0 + 0.06 + facts["mean latency at the end"]
    assert series["throughput", "answered"].mean() == pytest.approx(50 / latency_ms * 1e3, rel=0.02)


@pytest.mark.usefixtures("made")
def test_a_cache_of_several_shards_begins_with_all_their_cores():
    cache, _, _, _ = ran(scenario(shards=4, duration_s=10))
    assert cache.shards.capacity_rps == pytest.approx(4 * 8 * THREAD_RPS)


@pytest.mark.usefixtures("made")
def test_what_a_user_limits_does_not_make_a_cache_grow():
    limits = {"most_ecpu_per_s": 5_000}
    asked = scenario(shards=2, demand={"rate_rps": 50_000}, limits=limits, duration_s=200)
    _, _, facts, series = ran(asked)
    assert facts["shards at the end"] == 2
    assert series["throughput", "answered"].max() <= 5_000 * 1.01


@pytest.mark.usefixtures("made")
def test_a_cache_has_no_more_shards_than_it_may(monkeypatch):
    monkeypatch.setattr(scaling_module, "MOST_SHARDS", 2)
    asked = scenario(
        mechanisms={"io_threads": [1]}, duration_s=400, demand={"rate_rps": 100_000}, filled=1.0
    )
    _, run, facts, _ = ran(asked)
    assert facts["shards at the end"] == 2
    assert any("shards were needed" in warning for warning in run.warnings)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("step_s", [0.05, 0.25, 1.0])
def test_a_small_limit_holds_whatever_the_step(step_s):
    limits = {"most_ecpu_per_s": 1_000}
    asked = scenario(
        shards=20, demand={"rate_rps": 2_000}, limits=limits, duration_s=30, step_s=step_s
    )
    _, _, facts, _ = ran(asked)
    assert facts["answered"] == pytest.approx(30_000, rel=0.03)


@pytest.mark.usefixtures("made")
def test_data_alone_makes_a_cache_scale_out():
    # 100,000 keys weigh 0.1 GB here.
    cache, _, facts, _ = ran(scenario(mechanisms={"shard_gb": 0.03}, filled=1.0, duration_s=20))
    assert facts["shards at the end"] == 4
    asked = scenario(
        mechanisms={"shard_gb": 0.03},
        demand={"rate_rps": 1_400, "mix": {"set": 1}},
        duration_s=300,
    )
    growing, _, facts, _ = ran(asked)
    assert facts["shards at the end"] == 4
    assert growing.shards.level == 0
    assert not cache.shards.growths


def test_what_is_kept_ready_is_billed_hour_by_hour():
    meter = Meter(load_prices("elasticache-us-east-1"), "valkey", value_bytes=100, least_gb=0)
    for ecpu in (0.0, 200_000.0 * 1_800):
        meter.add(ecpu, seconds=1_800, least_ecpu_per_s=100_000, data_gb=1)
    assert meter.billed_ecpu == pytest.approx(360e6)
    meter.add(0.0, seconds=3_600, least_ecpu_per_s=100_000, data_gb=1)
    assert meter.billed_ecpu == pytest.approx(720e6)
    assert meter.ecpu == pytest.approx(360e6)
    assert meter.gb_hours == pytest.approx(2.0)


@pytest.mark.usefixtures("made")
def test_a_ramp_to_less_than_an_empty_cache_serves_has_no_doublings():
    _, _, facts, series = ran(scenario(demand={"ramp_to_rps": 500}))
    assert "mean time of a doubling" not in facts
    assert series["throughput", "answered"].mean() == pytest.approx(500, rel=0.03)


@pytest.mark.usefixtures("made")
def test_more_data_at_first_than_there_may_be_is_told():
    with pytest.raises(InputError, match=r"field 'filled'.*limits\.most_gb"):
        ran(scenario(filled=1.0, limits={"most_gb": 0.01}))


def test_a_version_varies_one_whose_file_says_everything(tmp_path, monkeypatch):
    whole, varied = (load_version(name) for name in ("7.2", "8.0"))
    same = {name for name in whole.numbers if whole.numbers[name] == varied.numbers[name]}
    assert whole.numbers.keys() - same == {"let_through", "migration_threads"}
    for name, text in {"a": "variant_of: b", "b": "variant_of: a", "c": "id: c"}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    files = {path.stem: path for path in tmp_path.glob("*.yaml")}
    monkeypatch.setattr(versions_module, "shipped", lambda *_: files)
    with pytest.raises(InputError, match=r"a\.yaml: field 'variant_of': found 'b'.*everything: c"):
        load_version("a")
