"""Capacity plans: the scenario, bounds, the search against enumeration, failures and growth."""

import math
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.models.cost.bill import CLIENTS, Bill, BillLine, NotPriced
from forecache.models.cost.schema import MOST_SHARDS
from forecache.models.plan import answer as answer_module
from forecache.models.plan import forecast as forecast_module
from forecache.models.plan import search as search_module
from forecache.models.plan import trials
from forecache.models.plan.answer import check_plan, order_by_whole_bill, plan, rejected_today
from forecache.models.plan.bill import serverless_offers, with_bill
from forecache.models.plan.forecast import headroom_front, months_until
from forecache.models.plan.offers import find_offers
from forecache.models.plan.results import RankedPlan
from forecache.models.plan.schema import PlanScenario
from forecache.models.plan.search import BoundedOffer, bound, rank, search, tied
from forecache.models.plan.shard import (
    Offer,
    busiest_share,
    elects,
    load_bound,
    losses_to_fail_over,
    memory_bound,
    memory_room,
    memory_used,
    next_failover_count,
    node_scenario,
    nodes_lost,
    shards_after_loss,
    why_never,
)
from forecache.models.plan.trials import Chance, Effort, Trial, Trials, miss_reason
from forecache.models.scenario.schema import Slo
from forecache.sim.errors import InfeasibleError, InputError

SMALL: dict[str, Any] = {
    "kind": "plan",
    "demand": {
        "operations": {"get": 240_000, "set": 60_000},
        "peak_to_mean": 1.5,
        "keys": 20_000_000,
        "value_bytes": 256,
        "clients_per_node": 100,
    },
    "objectives": {"slo": {"p99_ms": 1.0, "probability": 0.9}},
    "choices": {
        "instances": ["c7g.large", "c7g.xlarge", "r7g.large"],
        "engines": [{"engine": "valkey", "versions": ["8.1", "9.1"]}],
    },
}

ONE_VERSION = [{"engine": "valkey", "versions": ["9.1"]}]


def changed(**fields: Any) -> dict[str, Any]:
    """The small plan with other fields, named by path: `demand__keys=1`."""
    data = deepcopy(SMALL)
    for path, value in fields.items():
        place, *names = data, *path.split("__")
        for name in names[:-1]:
            place = place.setdefault(name, {})
        place[names[-1]] = value
    return data


def scenario(**fields: Any) -> PlanScenario:
    return PlanScenario(**changed(**fields))


def offers(plan_: PlanScenario) -> list[Offer]:
    return find_offers(plan_)[0]


def shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make searches of few and short runs."""
    few = Effort(draws=2, replications=1, requests=2_000)
    for module in (trials, search_module, answer_module, forecast_module):
        monkeypatch.setattr(module, "FULL", few)
    monkeypatch.setattr(trials, "MOST_DRAWS", 40)
    monkeypatch.setattr(search_module, "RACING", Effort(draws=1, replications=1, requests=2_000))
    monkeypatch.setattr(trials, "SATURATING_REQUESTS", 3_000)
    from forecache.models.advice import limits
    from forecache.models.prediction import predict, simulation

    monkeypatch.setattr(predict, "DRAW_REQUESTS", 2_000)
    monkeypatch.setattr(simulation, "OPEN_PILOT_REQUESTS", 3_000)
    monkeypatch.setattr(limits, "REQUESTS", 2_000)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of few and short runs, for tests of what is chosen, not of how well it is known."""
    shortened(monkeypatch)


@pytest.fixture
def here() -> Iterator[Executor]:
    """Threads of this process, which see what a test has replaced."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


# --- the scenario ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"choices__prices": "nowhere"}, "field choices.prices: found 'nowhere'"),
        ({"choices__region": "mars"}, "no price of it is known in mars, on demand"),
        ({"choices__region_factor": 1.1}, "field 'choices.region': found nothing"),
        ({"on": "2026-02-30"}, "a day as YYYY-MM-DD"),
        ({"choices__instances": ["r9x.*"]}, "field choices.instances.0: found 'r9x.*'"),
        ({"choices__instances": ["cache.r7g.large"]}, "which none of the engines runs on"),
        (
            {"choices__engines": ["valkey", "elasticache-redis"]},
            "which runs on none of the instances",
        ),
        ({"choices__engines": ["valkyrie"]}, "field choices.engines.0: field 'engine'"),
        ({"choices__engines": [{"engine": "valkey", "versions": [9.1]}]}, "a version in quotes"),
        ({"choices__shards": {"least": 5, "most": 2}}, "least not above most"),
        ({"choices__payments": ["reserved_1_year"]}, "no price of it is known, reserved 1 year"),
        ({"choices__usd_per_month": {"c7g.tiny": 5}}, "field choices.usd_per_month"),
        ({"objectives__slo": {"p99_ms": 1.0, "probability": 0.2}}, "at least 0.5"),
        ({"objectives__losing_a_node": "data", "choices__replicas": [0]}, "choices.replicas"),
        ({"objectives__losing_a_zone": "load", "demand__zones": 1}, "demand.zones"),
        ({"demand__operations": {}}, "at least one command"),
        ({"demand__sorted_sets": {"members": 5}}, "sorted_sets only with a command on them"),
        ({"choices__io_threads": [64]}, "fewer than any of the io_threads"),
        (
            {"today": {"instance": "c7g.nano", "engine": "valkey", "shards": 1}},
            "field today.instance: found 'c7g.nano'",
        ),
        (
            {"today": {"instance": "cache.r7g.large", "engine": "valkey", "shards": 1}},
            "valid is a node type (cache....) with an engine of ElastiCache",
        ),
    ],
)
def test_a_mistake_is_told_with_its_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        plan(changed(**fields))
    assert message in str(caught.value)
    assert str(caught.value).startswith("scenario: ")


def test_patterns_mean_families_and_not_those_of_a_service() -> None:
    names = {o.name for o in offers(scenario(choices__instances=["*7g.large", "r7g.x*"]))}
    assert names == {"c7g.large", "m7g.large", "r7g.large", "r7g.xlarge"}
    services = scenario(choices__instances=["cache.r7g.*"], choices__engines=["elasticache-redis"])
    assert all(offer.managed for offer in offers(services))
    assert {offer.family for offer in offers(services)} == {"cache.r7g"}


def test_a_price_of_ones_own_is_taken() -> None:
    [own, *_] = offers(scenario(choices__usd_per_month={"c7g.large": 11.0}))
    assert (own.usd_per_month, own.payment) == (11.0, "as given")
    assert own.nodes_usd(3) == pytest.approx(3 * (1 + own.replicas) * 11.0)


def test_threads_are_those_that_cores_and_tls_allow() -> None:
    by_name = {o.name: o.threads for o in offers(scenario())}
    assert by_name["c7g.large"] == (1, 2)
    assert by_name["c7g.xlarge"] == (1, 2, 3, 4)
    old = scenario(choices__engines=[{"engine": "redis", "versions": ["7.0"]}], demand__tls=True)
    assert {offer.threads for offer in offers(old)} == {(1,)}


# --- what a shard is asked for --------------------------------------------------------------------


def test_growth_reaches_a_node_through_its_share() -> None:
    grows = scenario(demand__growth_per_year=1.0, demand__data_growth_per_year=0.5)
    offer = offers(grows)[0]
    now, later = (node_scenario(grows, offer, 1, serving=4, months=m).workload for m in (0, 12))
    assert now.rate_rps == pytest.approx(300_000 * 1.5 / 4)
    assert later.rate_rps == pytest.approx(2 * 300_000 * 1.5 / 4)
    assert (now.keys, later.keys) == (5_000_000, 7_500_000)


def test_the_most_popular_key_stays_on_one_shard() -> None:
    demand = scenario(demand__popularity={"zipf": 1.0}, demand__keys=1_000_000).demand
    harmonic = math.log(1e6) + 0.5772156649
    assert busiest_share(demand, 1) == pytest.approx(1.0)
    assert busiest_share(demand, 10**6) == pytest.approx(1 / harmonic, rel=1e-3)
    assert busiest_share(scenario().demand, 8) == pytest.approx(1 / 8)


@pytest.mark.parametrize(("shards", "zones", "lost"), [(6, 3, 2), (7, 3, 3), (1, 3, 1), (5, 2, 3)])
def test_a_zone_takes_its_share_of_nodes(shards: int, zones: int, lost: int) -> None:
    assert nodes_lost(shards, what="zone", zones=zones) == lost
    assert nodes_lost(shards, what="node", zones=zones) == 1


def test_without_replicas_the_others_take_over() -> None:
    alone = scenario(choices__replicas=[0], objectives__losing_a_zone="load")
    assert shards_after_loss(alone, offers(alone)[0], 9) == 6
    with_replicas = scenario(choices__replicas=[1], objectives__losing_a_zone="load")
    assert shards_after_loss(with_replicas, offers(with_replicas)[0], 9) == 9
    nothing = scenario(choices__replicas=[0], objectives__losing_a_node="nothing")
    assert shards_after_loss(nothing, offers(nothing)[0], 9) == 9


@pytest.mark.parametrize(
    ("shards", "replicas", "what", "zones", "goes_on"),
    [
        (1, 1, "node", 3, False),  # nobody is left to vote
        (2, 1, "node", 3, False),  # one of two is no majority
        (3, 1, "node", 3, True),
        (3, 1, "zone", 3, True),
        (4, 1, "zone", 3, False),  # a zone has two of them
        (5, 2, "zone", 3, True),
        (9, 1, "zone", 2, False),  # a zone has at least half of them
        (9, 0, "node", 3, False),  # nobody takes over
    ],
)
def test_replicas_are_promoted_by_a_majority_of_all_primaries(
    shards: int, replicas: int, what: str, zones: int, goes_on: bool
) -> None:
    assert elects(shards, replicas, what=what, zones=zones) is goes_on


def test_a_plan_without_a_majority_is_only_chosen_where_failing_over_by_hand_is_allowed() -> None:
    zone = scenario(objectives__losing_a_zone="load")
    offer = offers(zone)[0]
    assert [next_failover_count(zone, offer, n) for n in (1, 3, 4, 5)] == [3, 3, 5, 5]
    two = scenario(objectives__losing_a_zone="load", demand__zones=2)
    assert "no majority" in (why_never(two, offer) or "")
    by_hand = scenario(objectives__losing_a_zone="load", objectives__failover="by_hand")
    assert next_failover_count(by_hand, offer, 1) == 1
    service = scenario(choices__instances=["cache.r7g.*"], choices__engines=["elasticache-redis"])
    assert next_failover_count(service, offers(service)[0], 1) == 1


def test_what_today_gets_over_by_itself_its_successor_has_to() -> None:
    today = {"instance": "r7g.large", "engine": "valkey", "shards": 6, "replicas": 1}
    assert losses_to_fail_over(scenario(today=today)) == ["node", "zone"]
    assert losses_to_fail_over(scenario(today=today | {"shards": 4})) == ["node"]
    assert losses_to_fail_over(scenario(today=today | {"replicas": 0})) == ["node"]
    # Who says that nothing has to survive means it.
    nothing = {"objectives__losing_a_node": "nothing", "objectives__losing_a_zone": "nothing"}
    assert losses_to_fail_over(scenario(today=today, **nothing)) == []
    assert losses_to_fail_over(scenario(**nothing)) == []
    managed = today | {"instance": "cache.r7g.large", "engine": "elasticache-redis", "shards": 1}
    assert losses_to_fail_over(scenario(today=managed)) == ["node", "zone"]


# --- bounds ---------------------------------------------------------------------------------------


def test_the_memory_bound_is_the_fewest_that_fit() -> None:
    large = scenario(demand__keys=300_000_000, objectives__memory_headroom=0.2)
    for offer in offers(large):
        bound = memory_bound(large, offer)
        assert bound.possible
        assert memory_used(large, offer, bound.shards, months=0.0) <= 0.8
        assert memory_used(large, offer, bound.shards - 1, months=0.0) > 0.8


def test_more_shards_need_less_memory_each() -> None:
    large = scenario(demand__keys=300_000_000)
    offer = offers(large)[0]
    needed = [memory_room(large, offer, serving=n).needed_bytes for n in (2, 3, 5, 9, 50, 400)]
    assert needed == sorted(needed, reverse=True)


def test_populations_weigh_what_they_are_said_to() -> None:
    strings = {"type": "string", "keys": 20_000_000, "value_bytes": 256}
    described = scenario(demand__data=[strings])
    offer = offers(described)[0]
    same, own = (memory_room(each, offer, serving=1) for each in (described, scenario()))
    assert same.used_bytes == pytest.approx(own.used_bytes)


def test_the_load_bound_is_below_what_a_node_serves() -> None:
    """Bounds leave out queues, so a node serves less than they allow."""
    busy = scenario(demand__operations={"get": 3_000_000}, objectives__cpu_headroom=0.0)
    for offer in offers(busy)[:3]:
        for threads in offer.threads[:2]:
            bound = load_bound(busy, offer, threads, least=1)
            serves = Trials(busy, offer, seed=1).capacity_rps(threads, serving=bound.shards)
            assert bound.shards <= math.ceil(busy.demand.peak_rps / serves)


def test_what_can_not_fit_is_told_without_a_simulation() -> None:
    huge = scenario(demand__keys=10**11)
    entry = bound(huge, offers(huge)[0])
    assert entry.impossible
    assert entry.shards == MOST_SHARDS + 1
    assert "GiB" in entry.why


# --- the search -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {
            "choices__replicas": [0],
            "objectives__losing_a_zone": "load",
            "objectives__failover": "by_hand",
            "choices__instances": ["c7g.large", "r7g.large"],
        },
        # Four shards over three zones have no majority where five and three have.
        {
            "objectives__losing_a_zone": "load",
            "demand__operations": {"get": 350_000},
            "choices__instances": ["c7g.large", "c7g.xlarge"],
            "choices__io_threads": [1, 2],
        },
        {"demand__keys": 150_000_000, "choices__io_threads": [1, 2]},
    ],
)
@pytest.mark.usefixtures("brief")
def test_search_and_enumeration_find_the_same(fields: dict[str, Any], here: Executor) -> None:
    asked = scenario(**fields)
    plans, others = search(asked, offers(asked), seed=1, executor=here)
    every, impossible = search(asked, offers(asked), seed=1, executor=here, full=True)

    def told(entry: BoundedOffer) -> tuple[Any, ...]:
        offer = entry.offer
        return offer.words, offer.replicas, entry.shards, entry.threads[0], entry.usd_per_month

    assert [told(entry) for entry in plans] == [told(entry) for entry in every]
    costs = [entry.usd_per_month for entry in plans]
    assert costs == sorted(costs)
    # What was left with a bound costs at least that.
    exact = {(e.offer.words, e.offer.replicas): e.usd_per_month for e in [*every, *impossible]}
    for entry in others:
        if not entry.impossible:
            known = exact[entry.offer.words, entry.offer.replicas]
            assert entry.usd_per_month <= known * (1 + 1e-9)


def settled(
    engine: str, probability: float, load: float, *, cpu_us: float = 2.0, shards: int = 2
) -> BoundedOffer:
    """A settled offer whose draws of CPU time per request are around `cpu_us`."""
    [offer] = offers(scenario(choices__instances=["c7g.large"], choices__engines=[ENGINES[engine]]))
    runs = [
        SimpleNamespace(result=SimpleNamespace(server_useful_cpu_us_per_request=cpu_us * spread))
        for spread in (0.98, 1.0, 1.02)
    ]
    prediction: Any = SimpleNamespace(
        drawn=runs,
        nominal=[],
        log_draws=lambda _: np.array([]),
        case=SimpleNamespace(
            scenario=SimpleNamespace(name=engine, workload=None, model_dump_json=lambda **_: "")
        ),
        system=SimpleNamespace(host=offer.host, engine=offer.engine, observed_here=False),
        bottleneck="none",
        model_error=0.05,
    )
    chance = Chance(probability, probability - 0.01, probability + 0.01, 20)
    trial = Trial(shards, 1, load * 1e5, 1e5, chance, prediction, None, misses=False)
    return BoundedOffer(offer, search_module.SETTLED, shards, (1,), "", trials=(trial,))


ENGINES = {
    "8.1": {"engine": "valkey", "versions": ["8.1"]},
    "9.1": {"engine": "valkey", "versions": ["9.1"]},
}


def test_plans_of_equal_cost_are_ranked_by_what_is_known_of_them() -> None:
    first, second = settled("8.1", 0.95, 0.50), settled("9.1", 0.93, 0.49)
    # A little more headroom is no reason: the name decides, and both orders say so.
    assert rank([second, first]) == rank([first, second]) == [first, second]
    assert tied(first, second)
    roomy = settled("9.1", 0.93, 0.30)  # 40% less load, where the errors leave 12%
    assert rank([first, roomy]) == [roomy, first]
    assert not tied(first, roomy)
    likely = settled("9.1", 0.999, 0.60)  # 5 points outweigh any headroom
    unlikely = settled("8.1", 0.90, 0.30)
    assert rank([unlikely, likely]) == [likely, unlikely]
    assert not tied(unlikely, likely)
    # One shard more costs more, however good it is.
    dear = settled("9.1", 1.0, 0.1, shards=3)
    assert rank([dear, first]) == [first, dear]
    assert not tied(first, dear)


def priced(entry: BoundedOffer, *, node_usd: float, traffic_usd: float | None) -> BoundedOffer:
    """The entry at other prices; None: traffic has none."""
    line = BillLine(CLIENTS, 1.0, "GB", traffic_usd or 0.0)
    missing = NotPriced(CLIENTS, 1.0, "GB", "no price between zones is known there")
    beside = Bill.of([missing if traffic_usd is None else line])
    offer = replace(entry.offer, usd_per_month=node_usd, beside=beside)
    return replace(entry, offer=offer)


@given(
    st.lists(st.tuples(st.floats(1, 100), st.none() | st.floats(0, 1e4)), min_size=2, max_size=6)
)
@settings(max_examples=40, deadline=None)
def test_a_sum_with_an_unpriced_part_beats_none_that_has_it(
    prices: list[tuple[float, float | None]],
) -> None:
    """Plans are ranked by what all have a price of."""
    one = settled("9.1", 0.95, 0.5)
    entries = [priced(one, node_usd=usd, traffic_usd=traffic) for usd, traffic in prices]
    costs = [round(100 * entry.usd_per_month) for entry in rank(entries)]
    assert costs == sorted(costs)
    for entry, (usd, traffic) in zip(entries, prices, strict=True):
        assert entry.usd_per_month == pytest.approx(2 * 2 * usd)
        expected = None if traffic is None else pytest.approx(4 * usd + traffic)
        assert entry.bill_usd == expected


def told_plan(usd: float, bill_usd: float | None) -> Any:
    return SimpleNamespace(
        usd_per_month=usd, bill_usd_per_month=bill_usd, bill=[], meets=True, is_open=False
    )


def test_it_is_said_where_traffic_would_change_the_order() -> None:
    """r8g.large, Azure and Google with what 100,000 GET/s cost between zones on each."""
    clouds = [told_plan(172, 2_485), told_plan(450, 450), told_plan(567, 1_644)]
    said = order_by_whole_bill(clouds, None, [])
    assert said == (
        "Traffic between zones would change the order, a month with it: plan 2 $450, plan 3 "
        "$1,644, plan 1 $2,485"
    )
    assert order_by_whole_bill([told_plan(1, 5), told_plan(2, 6)], None, []) == ""
    assert "today's $8, plan 1 $9" in order_by_whole_bill([told_plan(5, 9)], told_plan(7, 8), [])
    unknown = order_by_whole_bill([told_plan(1, None), told_plan(2, 6)], None, [])
    assert unknown == (
        "Traffic between zones of plan 1 has no known price, and is no part of the ranking"
    )
    assert order_by_whole_bill([told_plan(1, None), told_plan(2, None)], None, []) == ""
    # An offer that is no plan may come first with it.
    other = priced(settled("9.1", 0.95, 0.5), node_usd=3.0, traffic_usd=0.0)
    assert "2 shards of c7g.large with valkey 9.1 $12" in order_by_whole_bill(
        [told_plan(5, 90)], None, [other]
    )


@pytest.mark.usefixtures("brief")
def test_the_search_settles_what_would_be_cheapest_with_traffic(
    here: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "RANKED", 1)
    asked = scenario(
        choices__instances=["c7g.large", "r7g.large", "m7g.large", "Standard_D8ps_v5"],
        choices__engines=ONE_VERSION,
        choices__io_threads=[1, 2],
    )
    plans, others = search(
        asked, [with_bill(asked, o) for o in offers(asked)], seed=1, executor=here
    )
    [first] = plans
    assert first.offer.name == "c7g.large"
    bills = {e.offer.name: (e.bill_usd, e.stage) for e in [*plans, *others]}
    cheapest = min(bills, key=lambda name: bills[name][0] or math.inf)
    assert cheapest == "Standard_D8ps_v5"  # whose traffic costs nothing
    assert bills[cheapest][1] == search_module.SETTLED


ONLY = changed(choices__instances=["c7g.xlarge"], choices__engines=["valkey"])


@pytest.fixture(scope="module")
def best() -> RankedPlan:
    """The first plan of `ONLY`."""
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        shortened(patch)
        return plan(ONLY, executor=pool).plans[0]


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(("dearer", "stays"), [(0.95, True), (1.08, True), (1.2, False)])
def test_today_stays_unless_another_costs_less_by_a_tenth(
    here: Executor, best: RankedPlan, dearer: float, stays: bool
) -> None:
    today = {
        "instance": "c7g.xlarge",
        "engine": "valkey",
        "shards": best.setting.shards,
        "replicas": 1,
        "io_threads": best.setting.io_threads,
        "usd_per_month": dearer * best.usd_per_node_month,
    }
    answer = plan(ONLY | {"today": today}, executor=here)
    assert answer.keeps_today is stays
    assert answer.recommended is (answer.today if stays else answer.plans[0])


@pytest.mark.usefixtures("brief")
def test_today_does_not_stay_where_it_cannot_fail_over(here: Executor) -> None:
    today = {"instance": "c7g.xlarge", "engine": "valkey", "shards": 2, "replicas": 1}
    today |= {"io_threads": 2, "usd_per_month": 1.0}
    asked = changed(
        demand__operations={"get": 100_000},
        choices__instances=["c7g.xlarge"],
        choices__engines=ONE_VERSION,
        today=today,
    )
    answer = plan(asked, executor=here)
    assert not answer.keeps_today
    [why] = [each.why for each in answer.rejected if each.kind == "today"]
    assert "no majority" in why
    node = answer.today.failures[0] if answer.today else None
    assert node is not None
    assert (node.holds, node.by_itself) == (False, False)
    asked["objectives"] = asked["objectives"] | {"failover": "by_hand"}
    allowed = plan(asked, executor=here)
    assert allowed.keeps_today
    assert allowed.today is not None
    assert allowed.today.failures[0].holds


@pytest.mark.usefixtures("brief")
def test_the_answer_is_whole_and_says_why(here: Executor) -> None:
    today = {"instance": "c7g.xlarge", "engine": "valkey", "engine_version": "8.1", "shards": 1}
    asked = changed(
        demand__growth_per_year=0.4,
        demand__horizon_months=12,
        choices__serverless=True,
        today=today,
    )
    answer = plan(asked, executor=here)
    best = answer.plans[0]
    assert best.meets
    assert best.horizon.rate_rps == pytest.approx(1.4 * best.now.rate_rps)
    assert best.horizon.cpu_headroom < best.now.cpu_headroom
    assert best.usd_per_month == min(each.usd_per_month for each in answer.plans)
    months = [m.months for m in best.milestones if m.months is not None]
    assert months == sorted(months)
    assert min(months) >= 12.0  # it holds until then
    kinds = {each.kind for each in answer.rejected}
    assert {"size", "family", "engine", "today"} <= kinds or len(kinds) >= 3
    assert answer.today is not None
    assert not answer.today.meets  # one shard with a single thread
    assert {offer.engine for offer in answer.serverless} == {"valkey", "redis"}
    data = answer.to_dict()
    assert data["plans"][0]["setting"]["nodes"] == best.setting.nodes
    assert data["search"]["candidates"] == sum(len(o.threads) for o in offers(scenario()))


@pytest.mark.usefixtures("brief")
def test_nothing_that_holds_is_an_answer_too(here: Executor) -> None:
    few = changed(choices__shards={"least": 1, "most": 1}, demand__operations={"get": 9_000_000})
    with pytest.raises(InfeasibleError, match="nothing that may be chosen") as caught:
        plan(few, executor=here)
    result = caught.value.result
    assert result.plans == []
    assert all(each.why for each in result.rejected)


@pytest.mark.usefixtures("brief")
def test_a_node_that_is_lost_leaves_its_load_to_the_others(here: Executor) -> None:
    answer = plan(
        changed(
            choices__instances=["c7g.large", "c7g.xlarge"],
            choices__engines=ONE_VERSION,
            choices__io_threads=[1, 2],
            choices__replicas=[0],
            demand__zones=2,
            demand__operations={"get": 600_000},
            objectives__failover="by_hand",
        ),
        executor=here,
    )
    best = answer.plans[0]
    node = best.failures[0]
    shards = best.setting.shards
    assert node.serving == shards - 1
    assert node.rate_rps == pytest.approx(best.horizon.rate_rps * shards / (shards - 1))
    assert node.data_lost == pytest.approx(1 / shards)
    assert node.holds  # losing_a_node is load
    assert node.cpu_headroom < best.horizon.cpu_headroom


@pytest.mark.usefixtures("brief")
def test_an_answer_that_contradicts_itself_is_refused(here: Executor) -> None:
    asked = changed(choices__instances=["c7g.xlarge"], choices__engines=ONE_VERSION)
    answer = plan(asked, executor=here)
    for wrong in ({"usd_per_month": 1.0}, {"bill_usd_per_month": 1.0}):
        with pytest.raises(RuntimeError, match="cost"):
            check_plan(replace(answer, plans=[replace(answer.plans[0], **wrong)]))
    same = rejected_today(answer.plans[0], answer.plans[0], keeps=True)
    assert "it is the first plan" in same.why


# --- growth, front, serverless --------------------------------------------------------------------


def test_growth_reaches_a_limit_when_compound_interest_says_so() -> None:
    assert months_until(2.0, 1.0) == pytest.approx(12.0)
    assert months_until(1.5**2, 0.5) == pytest.approx(24.0)
    assert months_until(0.9, 0.5) == 0.0
    assert months_until(1e30, 0.01) is None


@pytest.mark.usefixtures("brief")
def test_nothing_on_the_front_is_beaten(here: Executor) -> None:
    asked = scenario(
        objectives__losing_a_zone="load",
        demand__operations={"get": 350_000},
        choices__io_threads=[1, 2],
    )
    plans, others = search(asked, offers(asked), seed=1, executor=here)
    points = headroom_front(asked, [*plans, *others])
    ahead = [point for point in points if point.on_front]
    assert ahead
    # Four shards have no majority after a lost zone of three.
    assert {3, 5} <= {point.setting.shards for point in points}
    assert 4 not in {point.setting.shards for point in points}
    for point in ahead:
        assert not any(
            other.usd_per_month <= point.usd_per_month and other.headroom > point.headroom + 1e-9
            for other in points
        )


def test_serverless_is_billed_by_the_mean() -> None:
    asked = scenario(choices__serverless=True)
    steady = scenario(choices__serverless=True, demand__peak_to_mean=1.0)
    bills = [serverless_offers(each, offers(each), best_usd=None)[0] for each in (asked, steady)]
    assert bills[0].usd_per_month == pytest.approx(bills[1].usd_per_month)
    requests_usd = 300_000 * 3600 * 730 / 1e6 * 0.0023
    assert bills[0].usd_per_month > requests_usd
    assert serverless_offers(scenario(), offers(scenario()), best_usd=None) == []


def test_the_busiest_slot_stays_whole_on_one_shard() -> None:
    demand = scenario(demand__hot_slot=0.2).demand
    assert busiest_share(demand, 10) == pytest.approx(0.2 + 0.8 / 10)
    assert busiest_share(demand, 1) == 1.0


def missed_with(*, value: float, low: float, high: float, cause: str = "") -> str:
    prediction: Any = SimpleNamespace(
        overloaded=False,
        mean=lambda _: 0.5,
        case=SimpleNamespace(scenario=SimpleNamespace(slo=Slo(p99_ms=1.0, probability=0.9))),
    )
    return miss_reason(Chance(value, low, high, 160, cause), prediction)


def test_what_is_missed_by_a_hair_is_not_told_as_met() -> None:
    just = missed_with(value=0.9 - 1e-12, low=0.8, high=0.9 - 1e-12)
    assert just == "p99 0.5 ms of 1: met with 89.99%, 90% asked"
    assert missed_with(value=0.85, low=0.8, high=0.89, cause="x is low") == (
        "p99 0.5 ms of 1: met with 85%, 90% asked (x is low)"
    )


def test_what_draws_can_not_tell_is_told_as_such() -> None:
    assert missed_with(value=0.88, low=0.874, high=0.951) == (
        "p99 0.5 ms of 1: met with 88% (87% to 95% by 160 draws), 90% asked"
    )
