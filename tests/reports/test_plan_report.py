"""A capacity plan on a terminal and on a page."""

import io
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from forecache.models.cost.bill import CLIENTS, NODES, BillLine, NotPriced
from forecache.models.plan.results import (
    AfterLoss,
    BillPart,
    CapacityLimit,
    CommandLatency,
    ComparedLine,
    CompressedSize,
    CompressionEffect,
    CurrentNode,
    FromBill,
    FromInfo,
    FrontPoint,
    KnownField,
    Lever,
    Milestone,
    NodeHeadroom,
    NotOffered,
    PlanAnswer,
    PlanSetting,
    RankedPlan,
    ReadReplica,
    Rejected,
    SearchCounts,
    ServerlessOffer,
    SettingChange,
    ShardState,
    ThreadShare,
    UnplacedLine,
)
from forecache.models.results.displayed import provenance
from forecache.reports import figures
from forecache.reports.builders.plan import (
    compression_facts,
    cost_phrase,
    failure_phrase,
    headline,
    months_text,
    serverless_phrase,
    setting_phrase,
)
from forecache.reports.page import render_html
from forecache.reports.terminal import print_answer
from forecache.sim.statistics import Estimate

GIB = 2**30


def state(months: float, **fields: Any) -> ShardState:
    found = ShardState(
        months=months,
        rate_rps=100_000.0,
        capacity_rps=400_000.0,
        cpu_headroom=0.75,
        limit_rps=350_000.0,
        memory_needed_bytes=24.0 * GIB,
        memory_usable_bytes=28.8 * GIB,
        memory_headroom=0.17,
        p50_ms=Estimate(0.11, 0.08, 0.16),
        p99_ms=Estimate(0.45, 0.2, 1.1),
        p999_ms=Estimate(0.9, 0.4, 2.0),
        probability=0.97,
        probability_low=0.965,
        probability_high=0.975,
        draws=20,
    )
    return replace(found, **fields)


def ranked(shards: int, usd: float, **fields: Any) -> RankedPlan:
    setting = PlanSetting("r7g.2xlarge", "elasticache-redis", "7.1", shards, 1, 6)
    later = state(18.0, rate_rps=150_000.0, cpu_headroom=0.62, memory_needed_bytes=27.0 * GIB)
    loss = AfterLoss(
        "zone", 2 * shards // 3, shards, 150_000.0, 0.62, 0.1, later.p99_ms, 0.97, 0.0, True,
        "replicas take over by vote of the other primaries", True,
    )  # fmt: skip
    found = RankedPlan(
        setting=setting,
        usd_per_month=usd,
        usd_per_node_month=usd / setting.nodes,
        payment="on demand",
        price_note="on demand, us-east-1, 2026-07-20",
        meets=True,
        why="memory: 24 GiB a shard with 28.8 GiB for it",
        now=state(0.0),
        horizon=later,
        bottleneck="I/O threads",
        milestones=[Milestone("memory headroom of 15%", 19.2), Milestone("capacity", None)],
        failures=[loss],
        warnings=["the CPU work of `x` was not measured"],
        bill_usd_per_month=usd,
        bill=[BillLine(NODES, setting.nodes, "node-months", usd)],
    )
    return replace(found, **fields)


def with_traffic(plan: RankedPlan, usd: float | None) -> RankedPlan:
    """The plan with traffic between zones, of which the price may not be known."""
    if usd is None:
        missing = [NotPriced(CLIENTS, 5_000.0, "GB", "no price between zones is known there")]
        return replace(plan, bill_usd_per_month=None, not_priced=missing)
    bill = [*plan.bill, BillLine(CLIENTS, 5_000.0, "GB", usd)]
    return replace(plan, bill_usd_per_month=plan.usd_per_month + usd, bill=bill)


def answer(**fields: Any) -> PlanAnswer:
    plans = [ranked(16, 10_007.0), ranked(31, 21_000.5)]
    points = [
        FrontPoint(each.setting, each.usd_per_month, room, "memory", on_front=True)
        for each, room in zip(plans, (0.1, 0.4), strict=True)
    ]
    found = PlanAnswer(
        kind="plan",
        scenario={
            "kind": "plan",
            "name": "A <cache> for lunch & dinner",
            "demand": {"horizon_months": 18.0},
            "objectives": {"slo": {"p99_ms": 2.0, "probability": 0.9}},
        },
        peak_rps=1_600_000.0,
        horizon_rps=2_400_000.0,
        data_growth=1.5,
        plans=plans,
        keeps_today=False,
        with_traffic="",
        rejected=[Rejected("shards", "15 shards", "p99 2.31 ms of 2", 9_000.0, 15, certain=True)],
        front=points,
        today=ranked(40, 30_000.0, meets=False),
        serverless=[ServerlessOffer("valkey", 99.5, 123_456.0, 0.25, "a table")],
        not_offered=[NotOffered("x1.large with valkey 9.1", "no price of it is known")],
        search=SearchCounts(28, 176, 20, 1, 2, 5, enumerated=False),
        warnings=["the CPU work of `x` was not measured"],
        provenance=provenance(seed=1),
    )
    return replace(found, **fields)


def printed(found: PlanAnswer, *, width: int = 80) -> str:
    stream = io.StringIO()
    print_answer(found, Console(file=stream, width=width, color_system=None))
    return stream.getvalue()


def test_plans_that_nothing_tells_apart_are_marked() -> None:
    alone = printed(answer())
    assert "2 =" not in alone
    both = [ranked(16, 10_007.0), ranked(16, 10_007.0, tied=True)]
    text = printed(answer(plans=both))
    assert "2 =" in text
    assert "=: costs as much as the plan above" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "=: costs as much as the plan above" in render_html(answer(plans=both))


@pytest.mark.parametrize("width", [80, 100, 160])
def test_every_line_fits_and_no_word_is_cut(width: int) -> None:
    text = printed(answer(), width=width)
    assert max(map(len, text.splitlines())) <= width
    for words in ("Run 16 shards of r7g.2xlarge", "Why not", "15 shards: p99 2.31 ms of 2"):
        assert words in text
    assert "elasticache-redis" in text
    assert "…" not in text


def test_a_wide_terminal_has_all_columns() -> None:
    assert "first limit" in printed(answer(), width=160)


def test_without_a_plan_it_says_why() -> None:
    text = printed(answer(plans=[], front=[], today=None, serverless=[]))
    assert "Nothing that may be chosen meets the objectives" in text
    assert "Why nothing does" in text
    html = render_html(answer(plans=[], front=[], today=None, serverless=[]))
    assert "Why nothing does" in html


def test_the_page_is_whole_and_escapes_names() -> None:
    html = render_html(answer())
    assert html.count("<svg") == 2  # a wide and a narrow one
    assert "<script" not in html
    assert "A &lt;cache&gt; for lunch &amp; dinner" in html
    assert "$10,007" in html
    assert html.rstrip().endswith("</html>")


def test_one_point_is_no_figure() -> None:
    one = answer().front[:1]
    assert figures.front(one) is None
    assert "What more money buys" not in render_html(answer(front=one))


def test_words() -> None:
    found = answer()
    best = found.plans[0]
    assert setting_phrase(best.setting) == (
        "16 shards of r7g.2xlarge, 1 replica each, elasticache-redis 7.1, io-threads 6"
    )
    assert cost_phrase(found) == "$10,007 a month for 32 nodes, 67% less than today’s $30,000"
    assert "holds (97%)" in failure_phrase(best.failures[0])
    assert [months_text(m) for m in (None, 0.0, 0.3, 1.2, 19.2, 30.0)] == [
        "not within 20 years", "now", "less than a month", "1 month", "19 months", "2.5 years",
    ]  # fmt: skip
    assert "0.25 times today’s operations" in serverless_phrase(found.serverless[0], found)


def test_json_has_no_infinity() -> None:
    found = answer().to_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_what_runs_today_stays_where_it_is_to() -> None:
    today = ranked(18, 10_900.0)
    found = answer(today=today, keeps_today=True)
    assert cost_phrase(found) == "$10,900 a month for 36 nodes; the cheapest change costs 8.2% less"
    text = printed(found)
    assert "Keep today’s 18 shards of r7g.2xlarge" in text
    assert "Why not, against plan 1" in text
    assert max(map(len, text.splitlines())) <= 80
    html = render_html(found)
    chosen = html[html.index('class="chosen"') :]
    assert chosen[: chosen.index("</tr>")].count("<td") > 5
    assert "10,900" in chosen[: chosen.index("</tr>")]
    # Of what stays are the facts and the bill.
    assert "$303 a node" in text
    alone = answer(plans=[], front=[], today=today, keeps_today=True)
    assert cost_phrase(alone) == "$10,900 a month for 36 nodes"
    assert "Why nothing else does" in printed(alone)


def test_traffic_stands_apart_and_is_a_column_where_plans_differ() -> None:
    plans = [
        with_traffic(ranked(16, 10_007.0), 2_312.6),
        with_traffic(ranked(31, 21_000.5), None),
    ]
    change = "Traffic between zones would change the order, a month with it: plan 2 $1"
    found = answer(plans=plans, today=None, with_traffic=change)
    text = printed(found, width=120)
    assert "$10,007 a month for 32 nodes" in text
    assert "$2,313 for traffic between zones" in text
    assert f"{change}." in text
    assert change in render_html(found)
    [header] = [line for line in text.splitlines() if "$/month  traffic" in line]
    rows = [line for line in text.splitlines() if "r7g.2xlarge  elasticache" in line]
    at = header.index("traffic")
    assert [row[at : at + 7].strip() for row in rows] == ["2,313", "–"]
    alike = [with_traffic(ranked(n, 9.0), 5.0) for n in (3, 4)]
    assert "traffic: between zones" not in printed(answer(plans=alike, today=None), width=120)


def test_a_loss_that_nobody_gets_over_by_itself_does_not_hold() -> None:
    [loss] = ranked(2, 1.0).failures
    stranded = replace(loss, what="node", nodes_lost=1, by_itself=False, holds=False)
    assert failure_phrase(stranded).endswith("0.45 ms: does not hold by itself.")
    allowed = replace(stranded, holds=True)
    assert failure_phrase(allowed).endswith("0.45 ms: holds (97%) once that is done.")
    missed = replace(loss, holds=False)
    assert failure_phrase(missed).endswith("0.45 ms: does not hold (97%).")


def test_what_draws_can_not_tell_is_marked() -> None:
    wide = state(0.0, probability=0.93, probability_low=0.88, probability_high=0.96, draws=160)
    cause = "missed where host.network_packets_per_s is below 1,700,000; 1 to 2 is believed"
    open_ = ranked(40, 30_000.0, is_open=True, horizon=wide, missed_where=cause)
    text = printed(answer(today=open_, keeps_today=True), width=120)
    assert "met with 93% (88% to 96% by 160 draws); missed where" in text
    assert "93%?" in text
    assert "?: the draws can't tell it from what is asked" in text


EFFECT = CompressionEffect(
    algorithm="zstd",
    level=3,
    above_bytes=1024,
    compressor="zstd 1.5.7",
    cpu_model="EPYC",
    sizes=[
        CompressedSize(
            2048, 200, Estimate(0.4, 0.38, 0.42), Estimate(12.8, 12.1, 14.0), Estimate(4.6, 4.5, 5)
        )
    ],
    value_bytes=2048.0,
    stored_bytes=Estimate(819.0, 778.0, 860.0),
    network_bytes_without=2100.0,
    network_bytes=Estimate(870.0, 830.0, 910.0),
    memory_bytes_without=40.0 * GIB,
    memory_bytes=Estimate(20.0 * GIB, 19.0 * GIB, 21.0 * GIB),
    memory_shards_without=24,
    client_us={"get": Estimate(4.6, 4.5, 5.0), "set": Estimate(12.8, 12.1, 14.0)},
    client_us_per_operation=Estimate(6.2, 6.0, 6.8),
    client_cpus=Estimate(9.9, 9.6, 10.9),
)


def test_what_compression_changes_is_told_on_both() -> None:
    found = answer(compression=EFFECT)
    facts = dict(compression_facts(EFFECT))
    assert facts["Values"] == "819 B (778 B–860 B) on average, 2 KiB before"
    assert facts["Memory of a node"] == (
        "20 GiB (19 GiB–21 GiB), 40 GiB without, for which 24 shards are needed"
    )
    for text in (printed(found, width=200), render_html(found)):
        assert "Clients compress values above 1 KiB: zstd, level 3" in text
        assert "at the peak 9.9 CPUs (9.6–10.9) of all clients" in text
        assert "On this machine (EPYC) with zstd 1.5.7" in text
    given = replace(EFFECT, sizes=[], client_us=None, client_cpus=None, memory_shards_without=None)
    facts = dict(compression_facts(given))
    assert facts["CPU of clients"] == "not known: the ratio is given, nothing was measured"
    assert facts["Memory of a node"].endswith("40 GiB without, which no number of shards has")


def test_latencies_stand_beside_the_objective_and_what_is_not_used_is_told() -> None:
    told = FromInfo(
        nodes=[],
        demand={},
        today={},
        known=[KnownField("demand.keys", 5, "keyspace")],
        unknown=["growth"],
        latencies=[CommandLatency("get", "a", 12_000, {"p50": 0.001, "p99": 0.013})],
        not_used=["maxmemory 4 GiB"],
    )
    text = printed(answer(from_info=told), width=120)
    assert "without waiting and network; clients are to see p99 at most 2 ms" in text
    assert "GET" in text
    assert "13 µs" in text
    assert "What they say and a plan does not use" in text
    assert "maxmemory 4 GiB" in text


def study(**fields: Any) -> PlanAnswer:
    """Of nodes that told their times, and whose limit is known."""
    told = FromInfo(
        *([CurrentNode("a", "primary", 40_000.0, 50_000.0, GIB, 9)], {}, {"shards": 4}),
        *([KnownField("demand.keys", 5, "keyspace")], ["the size of keys"], [], []),
        look_next=["a second look: the peak"],
    )
    limit = CapacityLimit(
        "r7g.large", "valkey", "8.1", 1, {"p99_ms": 1.0}, Estimate(200_000.0, 1e5, 4e5), 2e5,
        "main thread", [NodeHeadroom("a", 50_000.0, 0.5)], [], peak_rps=50_000.0, shards=4,
        times=2.0, probability=0.97, corrected=True,
        changes=[SettingChange("io-threads 4", 3e5, 1.5), SettingChange("valkey 9.1", 2e5, 1.02)],
        otherwise=[SettingChange("values of 800 B", 1e5, 0.5), SettingChange("9 keys", 2e5, 1.01)],
        time=[ThreadShare("all of it", 0.5, 0.4, 0.5, True)],
    )  # fmt: skip
    return answer(from_info=told, ceiling=limit, **fields)


CHAPTERS = [
    *("Today", "Growth", "What to do", "What it costs", "What may go wrong", "How sure this is"),
    *("What to measure next", "Parameters"),
]


@pytest.mark.parametrize("width", [80, 120])
def test_a_study_answers_first_and_ends_with_its_parameters(width: int) -> None:
    text = printed(study(), width=width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert [line.rstrip(" ─") for line in lines if line.endswith("──")] == CHAPTERS
    first = " ".join(text[: text.index("Today ─")].split())
    assert first.startswith("Today’s 4 shards hold 2 times the peak, 400 k/s; they stop at 800 k/s")
    assert "Run 16 shards of r7g.2xlarge" in first
    assert "67% less than today’s $30,000" in first
    assert "What runs today misses what is asked: memory: 24 GiB a shard" in first
    assert "1.5 times as much with io-threads 4." in first
    assert "valkey 9.1" not in first  # less than the model's error
    flowing = " ".join(text.split())
    assert "valkey 9.1 200 k/s 1.02 times within the model’s error" in flowing
    assert "Within the model’s error as today: 9 keys." in flowing
    assert "Holds 2 times today’s peak with a probability of 97%" in flowing
    html = render_html(study())
    assert re.findall(r"<h2>(.*?)</h2>", html)[1:9] == CHAPTERS
    assert html.index("Before you rely on this") < html.index("<h2>Today</h2>")


def test_years_until_growth_reaches_a_limit_are_compound_interest() -> None:
    text = printed(study(), width=120)
    [row] = [line.split() for line in text.splitlines() if line.strip().startswith("100%")]
    # Twice the load is left, at least none and at most four times; the plan's data leave a fifth.
    assert row[:3] == ["100%", "1.0", "(now–2.0)"]
    assert row[3:] == ["0.3", "1.8", "0.3"]
    overloaded = replace(study().ceiling, times=8.0)
    text = printed(answer(from_info=study().from_info, ceiling=overloaded))
    assert text.startswith("Today’s 4 shards do not hold 8 times the peak")
    assert "Growing by 25%" not in text


def test_a_machine_whose_price_is_not_known_need_not_be_replaced() -> None:
    assert headline(study(today=None)).startswith(
        "Nothing has to change; bought anew, the cheapest"
    )
    assert headline(study()).startswith("Run 16 shards")
    assert "The plan holds the load without a zone." in printed(study())
    gone = replace(ranked(16, 10_007.0).failures[0], holds=False)
    lost = study(plans=[ranked(16, 10_007.0, failures=[gone])])
    assert "The loss of a zone ends the service." in printed(lost)


def test_lines_of_a_bill_that_are_left_out_are_summed() -> None:
    lines = [UnplacedLine(f"product {n}", "", "Usage", "no cache", 1, 2.0) for n in range(20)]
    compared = [ComparedLine(f"part {n}", 10.0, 9.0) for n in range(20)]
    bill = FromBill(
        files=["export.csv"],
        begins="",
        ends="",
        hours=24.0,
        rows=40,
        total_usd=240.0,
        placed_usd=200.0,
        unplaced_usd=40.0,
        cache="orders",
        caches=[],
        unplaced=lines,
        known=[],
        unknown=[],
        compared=compared,
    )
    text, html = printed(answer(from_bill=bill)), render_html(answer(from_bill=bill))
    assert [line.split() for line in text.splitlines() if "5 more" in line] == [
        ["5", "more", "--json", "has", "them", "10.00"]
    ]
    assert ["all", "200.00", "180.00"] in [line.split() for line in text.splitlines()]
    assert "product 14" in text
    assert "product 15" not in text
    assert "product 19" in html


def test_a_notebook_shows_the_plans_before_what_runs_today() -> None:
    limit = Estimate(90_000.0, 80_000.0, 99_000.0)
    time = [ThreadShare("all", 0.5, 0.4, 0.5, True)]
    ceiling = CapacityLimit(
        "r7g.large", "valkey", "8.1", 1, {"p99_ms": 1.0}, limit, 1e5, "main thread", [], [],
        time=time, peak_rps=50_000.0,
    )  # fmt: skip
    html = answer(ceiling=ceiling)._repr_html_()
    assert "r7g.2xlarge" in html
    assert "main thread, at the mean load" not in html


def mostly_traffic() -> PlanAnswer:
    """Of whose bill most is traffic between zones."""
    best = with_traffic(ranked(16, 10_007.0), 90_063.0)
    read = ReadReplica(
        reads=2 / 3,
        primary_reads=1 / 3,
        crossing=1 / 3,
        rate_rps=70_000.0,
        writes_rps=16_000.0,
        writes_busy=0.036,
        cpu_headroom=0.55,
        p99_ms=Estimate(0.45, 0.2, 1.1),
        stale_p50_ms=Estimate(0.5, 0.15, 1.4),
        stale_p99_ms=Estimate(1.0, 0.4, 2.4),
    )
    gone = replace(
        best.failures[0], serving=0, p99_ms=None, note="nothing is left", by_itself=False
    )
    levers = [
        Lever("in one zone", {"objectives.losing_a_zone": "nothing"},
              Estimate(90_063.0, 90_063.0, 90_063.0), "", "a lost zone takes all",
              replace(ranked(16, 10_007.0), failures=[gone])),
        Lever("reads in the client’s own zone", {"demand.reads_from": "same_zone"},
              Estimate(40_000.0, 40_000.0, 40_000.0), "", "reads may be old",
              replace(with_traffic(best, -40_000.0), bill_usd_per_month=60_070.0,
                      replica_reads=read)),
        Lever("compression", {}, Estimate(20_000.0, 10_000.0, 30_000.0), "shrinks to 60%", "CPU",
              with_traffic(ranked(16, 10_007.0, meets=False), 70_063.0)),
    ]  # fmt: skip
    part = BillPart("traffic between zones", 90_063.0, 0.9, 100_070.0)
    return answer(plans=[best], largest_part=part, levers=levers)


@pytest.mark.parametrize("width", [80, 120])
def test_the_first_sentence_says_what_most_of_the_bill_is(width: int) -> None:
    found = mostly_traffic()
    assert headline(found) == (
        "Run 16 shards of r7g.2xlarge, 1 replica each, elasticache-redis 7.1, io-threads 6: 90% "
        "of its $100,070 a month is traffic between zones; reads in the client’s own zone would "
        "save $40,000"
    )
    text = printed(found, width=width)
    assert max(map(len, text.splitlines())) <= width
    flowing = " ".join(text.split())
    assert "90% of its $100,070 a month is traffic between zones" in flowing
    assert text.index("What would cut the bill") < text.index("The bill of a month")
    for words in ("all lost", "10,000–30,000", "33% of reads cross zones", "misses the objectives"):
        assert words in flowing
    html = render_html(found)
    assert "What would cut the bill" in html
    assert "0.50 ms (0.15–1.40)" in html
    told = found.to_dict()
    assert told["largest_part"]["share"] == 0.9
    assert [each["saves_usd"]["value"] for each in told["levers"]] == [90_063.0, 40_000.0, 20_000.0]
    assert "levers" not in answer().to_dict()


def test_where_nodes_are_most_of_the_bill_the_line_of_costs_says_so() -> None:
    part = BillPart("nodes", 10_007.0, 0.8, 12_508.75)
    found = answer(largest_part=part)
    assert headline(found) == headline(answer())
    assert "80% of the whole bill" in cost_phrase(found)
