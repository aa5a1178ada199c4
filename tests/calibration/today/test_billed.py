"""Exports of a bill and metrics of its nodes: what is read, where lines belong, what is refused."""

import csv
import gzip
import io
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.calibration.today.answer import compare_bill, today
from forecache.calibration.today.bill import (
    TodaysBill,
    cache_and_shard,
    columns_of,
    export_lines_in,
    is_export,
    place_lines,
    plain_column,
    todays_bill,
)
from forecache.calibration.today.metrics import is_metrics, metrics_of, todays_metrics
from forecache.models.cost.bill import CLIENTS, REPLICAS, BillLine, NotPriced
from forecache.models.plan.results import TodayAnswer
from forecache.sim.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
EXPORT = ROOT / "examples" / "bill" / "export.csv"
METRICS = ROOT / "examples" / "bill" / "metrics.csv"
SAMPLES = ROOT / "tests" / "calibration" / "readers" / "samples"

COLUMNS = (
    *("line_item_line_item_type", "line_item_usage_start_date", "line_item_usage_end_date"),
    *("line_item_product_code", "line_item_usage_type", "line_item_operation"),
    *("line_item_resource_id", "line_item_usage_amount", "line_item_unblended_cost"),
    "product_region_code",
)


def row(**fields: str) -> dict[str, str]:
    """A line of a day of a node on demand, with other fields by their last words."""
    found = {
        "item_type": "Usage",
        "start": "2026-10-01T00:00:00Z",
        "end": "2026-10-02T00:00:00Z",
        "product": "AmazonElastiCache",
        "usage_type": "NodeUsage:cache.r7g.large",
        "operation": "CreateCacheCluster:0002",
        "resource": "arn:aws:elasticache:us-east-1:111122223333:cluster:cart-001",
        "amount": "24",
        "cost": "5.256",
        "region": "us-east-1",
    }
    return found | fields


def text_of(rows: Sequence[dict[str, str]], columns: Sequence[str] = COLUMNS) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([list(each.values()) for each in rows])
    return out.getvalue()


def written(folder: Path, rows: Sequence[dict[str, str]]) -> Path:
    file = folder / "export.csv"
    file.write_text(text_of(rows), encoding="utf-8")
    return file


def bill_of(folder: Path, *rows: dict[str, str], **asked: Any) -> TodaysBill:
    return todays_bill([written(folder, rows)], **asked)


# --- nothing is lost ------------------------------------------------------------------------------

USAGES = st.sampled_from(
    [
        *("NodeUsage:cache.r7g.large", "EU-NodeUsage:cache.t4g.micro", "BoxUsage:m7g.large"),
        *("USE1-ExtendedSupportYr3-NodeUsage:cache.r6g.large", "HeavyUsage:cache.r7g.large"),
        *("ElastiCache:BackupUsage", "APN1-BackupUsage:Redis", "DataTransfer-Regional-Bytes"),
        *(
            "USE1-SyncDurability-NodeUsage:cache.r7g.large",
            "NewThing:2027",
            "",
            "CachedData:Valkey",
        ),
        "USE1-USW2-AWS-Out-Bytes",
    ]
)
ITEMS = st.sampled_from(
    [
        *("Usage", "DiscountedUsage", "RIFee", "Fee", "Tax", "Credit", "Refund"),
        *("SavingsPlanCoveredUsage", "SavingsPlanNegation", "SavingsPlanRecurringFee"),
        *("EdpDiscount", "BundledDiscount", "", "Something"),
    ]
)
COSTS = st.decimals(
    min_value=-1_000_000, max_value=1_000_000, places=10, allow_nan=False, allow_infinity=False
)
LINES = st.builds(
    lambda item, usage, product, resource, region, cost, amount: row(
        item_type=item, usage_type=usage, product=product, resource=resource, region=region,
        cost=f"{cost:f}", amount=str(amount),
    ),
    ITEMS,
    USAGES,
    st.sampled_from([*["AmazonElastiCache"] * 2, "AmazonEC2", "DatabaseSavingsPlans"]),
    st.sampled_from(["", "arn:aws:elasticache:eu-west-1:1:cluster:a-0001-001", "b-002", "i-0ab"]),
    st.sampled_from(["", "us-east-1", "eu-west-1"]),
    COSTS,
    st.integers(0, 10_000),
)  # fmt: skip


@given(rows=st.lists(LINES, max_size=30))
@settings(max_examples=80, deadline=None)
def test_placed_and_unplaced_are_the_whole(rows: list[dict[str, str]]) -> None:
    found = place_lines(export_lines_in(text_of(rows).splitlines(), file="f"))
    assert found.total_usd == sum((Fraction(each["cost"]) for each in rows), Fraction(0))
    assert found.placed_usd + found.unplaced_usd == found.total_usd  # to the last digit
    sums = [each for cache in found.caches.values() for each in cache.charges.values()]
    assert sum(each.rows for each in [*sums, *found.unplaced.values()]) == len(rows)


@given(rows=st.lists(LINES, min_size=1, max_size=20))
@settings(max_examples=20, deadline=None)
def test_the_answer_has_every_line_that_could_not_be_placed(
    rows: list[dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    result = bill_of(tmp_path_factory.mktemp("bill"), *rows).result
    assert result.placed_usd + result.unplaced_usd == pytest.approx(result.total_usd, abs=1e-6)
    assert sum(each.usd for each in result.unplaced) == pytest.approx(result.unplaced_usd, abs=1e-6)
    assert sum(each.usd for each in result.caches) == pytest.approx(result.placed_usd, abs=1e-6)
    for cache in result.caches:
        assert sum(line.usd for line in cache.lines) == pytest.approx(cache.usd, abs=1e-6)
    assert all(each.why for each in result.unplaced)


# --- exports --------------------------------------------------------------------------------------


def test_both_namings_of_columns_are_one() -> None:
    assert plain_column("lineItem/UsageType") == "line_item_usage_type"
    assert plain_column("savingsPlan/SavingsPlanEffectiveCost") == (
        "savings_plan_savings_plan_effective_cost"
    )
    assert plain_column("product/cacheEngine") == "product_cache_engine"
    assert plain_column("line_item_usage_type") == "line_item_usage_type"
    assert is_export(columns_of(EXPORT))
    assert not is_metrics(columns_of(EXPORT))
    assert is_metrics(columns_of(METRICS))
    assert not is_export(columns_of(METRICS))


def test_the_example_is_placed() -> None:
    found = todays_bill([EXPORT])
    result = found.result
    assert (result.cache, result.rows) == ("orders", 15)
    assert result.hours == pytest.approx(744)
    orders = result.caches[0]
    assert (orders.nodes, orders.shards, orders.replicas) == (4, 2, 1)
    # 4 nodes at $0.411 and $0.329 an hour.
    assert orders.usd_per_month == pytest.approx(4 * 730 * (0.411 + 0.329))
    assert {line.what: line.quantity for line in orders.lines} == {
        "nodes on demand": 2976.0,
        "extended support": 2976.0,
    }
    assert found.today["instance"] == "cache.r6g.xlarge"
    assert found.today["usd_per_month"] == pytest.approx(730 * 0.74)
    assert [each.why for each in result.unplaced][:2] == [
        "an instance: whether a cache runs on it is not told",
        "traffic between zones of the whole account: which part is of caches is not told",
    ]


def test_a_packed_file_tells_the_same(tmp_path: Path) -> None:
    packed = tmp_path / "export.csv.gz"
    packed.write_bytes(gzip.compress(EXPORT.read_bytes()))
    found, unpacked = todays_bill([packed]).result, todays_bill([EXPORT]).result
    assert found.caches == unpacked.caches
    assert found.unplaced == unpacked.unplaced


def test_commitments_are_spread_over_what_they_cover() -> None:
    result = todays_bill([SAMPLES / "bill_export" / "cur2.csv"]).result
    month = 730 / 24
    by_name = {each.name: each for each in result.caches}
    # A day of a reserved node whose effective cost is $3.84, of one in a savings plan $3.73.
    assert by_name["cart"].usd == 0.0
    assert by_name["cart"].usd_per_month == pytest.approx(3.84 * month)
    assert by_name["feed"].usd == pytest.approx(0.0)
    assert by_name["feed"].usd_per_month == pytest.approx(3.73248 * month)
    assert (by_name["feed"].engine, by_name["feed"].nodes) == ("valkey", 1)
    assert by_name["quick"].lines[0].what == "serverless"
    [fee] = [each for each in result.unplaced if each.product == "DatabaseSavingsPlans"]
    assert (fee.usd, fee.why) == (4.8, "a commitment of the whole account")


def test_names_of_nodes_tell_shards_and_replicas(tmp_path: Path) -> None:
    assert cache_and_shard("orders-0002-001") == ("orders", "0002")
    assert cache_and_shard("cart-003") == ("cart", "")
    assert cache_and_shard("a-0001-0001-001") == ("a-0001", "0001")
    assert cache_and_shard("memcached") == ("memcached", "")
    arn = "arn:aws:elasticache:us-east-1:1:cluster:"
    nodes = [row(resource=f"{arn}big-{shard:04}-{n:03}") for shard in (1, 2, 3) for n in (1, 2, 3)]
    gone = row(
        resource=f"{arn}big-0004-001", start="2026-09-20T00:00:00Z", end="2026-09-21T00:00:00Z"
    )
    cache = bill_of(tmp_path, *nodes, gone).result.caches[0]
    assert (cache.nodes, cache.shards, cache.replicas) == (9, 3, 2)


def test_without_resources_only_nodes_are_known(tmp_path: Path) -> None:
    found = bill_of(tmp_path, row(resource="", amount="72", cost="15.768"))
    assert found.cache is not None
    assert (found.cache.nodes, found.cache.shards) == (3, None)
    assert found.today["shards"] == 3
    assert any("how many of the 3 nodes are replicas" in each for each in found.result.unknown)


def test_another_region_is_priced_as_the_export_paid(tmp_path: Path) -> None:
    here = bill_of(tmp_path, row()).choices
    there = bill_of(tmp_path, row(region="eu-west-1", cost=str(24 * 0.243))).choices
    assert here == {}
    assert there == {"region": "eu-west-1", "region_factor": pytest.approx(0.243 / 0.219, rel=1e-3)}
    unknown = bill_of(tmp_path, row(region="eu-west-1", item_type="DiscountedUsage")).result.unknown
    assert any("those of us-east-1 are taken" in each for each in unknown)


def test_the_cache_that_is_meant(tmp_path: Path) -> None:
    arn = "arn:aws:elasticache:us-east-1:1:cluster:"
    rows = [row(resource=f"{arn}small-001", cost="1"), row(resource=f"{arn}large-001", cost="9")]
    assert bill_of(tmp_path, *rows).result.cache == "large"
    assert bill_of(tmp_path, *rows, seen=["small"]).result.cache == "small"
    assert bill_of(tmp_path, *rows, cache="small").result.cache == "small"
    with pytest.raises(InputError, match=r"found no cache 'smal'.*did you mean 'small'"):
        bill_of(tmp_path, *rows, cache="smal")


def test_a_type_without_a_host_is_told(tmp_path: Path) -> None:
    found = bill_of(tmp_path, row(usage_type="NodeUsage:cache.r6gd.xlarge"))
    assert "instance" not in found.today
    assert any("what a cache.r6gd.xlarge does" in each for each in found.result.unknown)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cost": "much"}, "line 2: found 'much' as 'line_item_unblended_cost'"),
        ({"cost": "1e999"}, "line 2: found '1e999' as 'line_item_unblended_cost'"),
        ({"cost": ""}, "line 2: found nothing as 'line_item_unblended_cost'"),
        ({"amount": "nan"}, "line 2: found 'nan' as 'line_item_usage_amount'"),
        ({"start": "yesterday"}, "line 2: found 'yesterday' as 'line_item_usage_start_date'"),
        ({"end": "2026-09-01"}, "an end before its start"),
        ({"more": "x"}, "line 2: found 11 cells; valid is 10, one for each column"),
    ],
)
def test_a_damaged_line_is_refused_with_its_place(
    fields: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        bill_of(tmp_path, row(**fields))
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'export.csv'}")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "found no line"),
        (b"line_item_usage_type,a\n", "found no column line_item_product_code"),
        (b"\xff\xfe", "no UTF-8"),
        (b'a,"b\n', "unexpected end of data"),
    ],
)
def test_a_damaged_file_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(data)
    with pytest.raises(InputError, match=message):
        todays_bill([file])
    packed = tmp_path / "x.csv.gz"
    packed.write_bytes(gzip.compress(EXPORT.read_bytes())[:-20])
    with pytest.raises(InputError, match="valid is one packed with gzip"):
        todays_bill([packed])
    packed.write_bytes(b"lineItem/UsageType")
    with pytest.raises(InputError, match="valid is one packed with gzip"):
        todays_bill([packed])


def test_another_currency_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    columns = [*COLUMNS, "line_item_currency_code"]
    file.write_text(text_of([row() | {"currency": "CNY"}], columns))
    with pytest.raises(InputError, match="the currency 'CNY'; valid is USD"):
        todays_bill([file])


# --- metrics --------------------------------------------------------------------------------------


def test_the_example_tells_its_demand() -> None:
    nodes = metrics_of([METRICS])
    found = todays_metrics(nodes, engine="redis", version="7.0")
    rows = list(csv.DictReader(METRICS.open(encoding="utf-8")))
    primaries = [each for each in rows if each["IsMaster Average"] == "1"]
    hours = len({each["Timestamp"] for each in rows})
    gets = sum(float(each["GetTypeCmds Sum"]) for each in primaries) / 3600 / hours
    sets = sum(float(each["SetTypeCmds Sum"]) for each in primaries) / 3600 / hours
    assert found.demand["operations"] == {
        "get": pytest.approx(gets, rel=1e-3),
        "set": pytest.approx(sets, rel=1e-3),
    }
    by_hour: dict[str, float] = {}
    for each in primaries:
        count = float(each["GetTypeCmds Sum"]) + float(each["SetTypeCmds Sum"])
        by_hour[each["Timestamp"]] = by_hour.get(each["Timestamp"], 0.0) + count / 3600
    peak = max(by_hour.values()) / (gets + sets)
    assert found.demand["peak_to_mean"] == pytest.approx(peak, rel=1e-3)
    assert found.demand["keys"] == 36_000_000
    assert found.demand["value_bytes"] == pytest.approx(256, abs=8)
    assert found.demand["clients_per_node"] == 160
    assert {each.name: each.role for each in found.nodes} == {
        "orders-0001-001": "primary",
        "orders-0001-002": "replica",
        "orders-0002-001": "primary",
        "orders-0002-002": "replica",
    }


@pytest.mark.parametrize("name", ["wide", "long", "console"])
def test_every_layout_is_read(name: str) -> None:
    nodes = metrics_of([SAMPLES / "cloudwatch" / f"{name}.csv"])
    first = next(each for each in nodes if each.name.endswith("001"))
    rates = first.rates("GetTypeCmds")
    assert len(rates) >= 3
    expected = {"wide": 3600.0, "long": 60.0, "console": 300.0}[name]
    assert first.period_s("GetTypeCmds") == expected
    if name == "long":  # a sum of a minute goes before the average of its minutes
        assert list(rates.values()) == [pytest.approx((6000 + m) / 60) for m in range(3)]
        assert first.mean("CurrItems") == 1000
    if name == "console":
        assert first.name == "orders-001"
        assert list(rates.values()) == [pytest.approx((90_000 + m) / 300) for m in range(4)]


@given(
    counts=st.lists(st.integers(1, 10**9), min_size=2, max_size=20),
    period_s=st.sampled_from([60, 300, 3600]),
)
@settings(max_examples=40, deadline=None)
def test_a_peak_is_never_below_the_mean(
    counts: list[int], period_s: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("m") / "m.csv"
    begins = 1_800_000_000
    lines = [f"{begins + n * period_s},{count}" for n, count in enumerate(counts)]
    file.write_text("timestamp,GetTypeCmds Sum\n" + "\n".join(lines) + "\n")
    found = todays_metrics(metrics_of([file]), engine="redis", version="7.0")
    mean = sum(counts) / len(counts) / period_s
    assert found.demand["operations"]["get"] == pytest.approx(mean, rel=1e-3)
    assert found.demand["peak_to_mean"] >= 1.0
    peak = min(1000.0, max(counts) / period_s / mean)
    assert found.demand["peak_to_mean"] == pytest.approx(peak, rel=2e-3)


def test_reads_of_replicas_misses_and_evictions_are_told(tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    columns = "time,node,GetTypeCmds,SetTypeCmds,CacheHits,CacheMisses,Evictions"
    rows = [
        f"2026-10-28T10:0{m}:00Z,{node},6000,600,{hits},600,60"
        for m in range(3)
        for node, hits in (("cart-001", 5400), ("cart-002", 5400))
    ]
    file.write_text("\n".join([columns, *rows]) + "\n")
    told = " ".join(todays_metrics(metrics_of([file]), engine="redis", version="7.0").unknown)
    assert "how 100 reads a second of 1 replicas would be served" in told
    assert "10% of the look-ups find nothing" in told
    assert "1 keys a second are evicted" in told
    assert "which nodes are primaries" in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timestamp,GetTypeCmds\nlong ago,5\n", "line 2: found 'long ago' as 'timestamp'"),
        ("timestamp,GetTypeCmds\n2026-10-28,-5\n", "line 2: found '-5' as 'GetTypeCmds'"),
        ("timestamp,GetTypeCmds\n2026-10-28,\n", "found no value of a metric that is read"),
        ("timestamp,GetTypeCmds\n2026-10-28,5\n", "at one time; valid are two times"),
        (
            "timestamp,GetTypeCmds\n2026-10-28,5\n2026-10-28,6\n",
            "line 3: found GetTypeCmds of a node twice",
        ),
        ("timestamp,node,GetTypeCmds\n2026-10-28,a b,5\n", "found 'a b' as a node"),
        ("timestamp,GetTypeCmds\n2026-10-28,0\n2026-10-29,0\n", "of a primary above 0"),
        ("timestamp,GetTypeCmds,GetTypeCmds\n2026-10-28,0,1\n", "'GetTypeCmds' twice"),
    ],
)
def test_damaged_metrics_are_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        todays_metrics(metrics_of([file]), engine="redis", version="7.0")
    assert message in str(caught.value)


# --- together -------------------------------------------------------------------------------------


def test_an_export_alone_tells_costs_without_a_demand() -> None:
    answer = today([], bill=[EXPORT], search=False)
    assert isinstance(answer, TodayAnswer)
    assert answer.from_bill is not None
    assert answer.ceiling is None
    with pytest.raises(InputError, match="found no demand"):
        today([], bill=[EXPORT])


def test_texts_of_nodes_go_before_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    node = ROOT / "tests" / "calibration" / "today" / "samples" / "valkey-8.1.1.txt"
    no_ceiling = "forecache.calibration.today.answer._ceiling"
    monkeypatch.setattr(no_ceiling, lambda *_, **__: (None, None))
    answer = today([node], bill=[EXPORT, METRICS], search=False)
    assert isinstance(answer, TodayAnswer)
    assert answer.from_info.demand["keys"] == 17_198
    assert answer.from_info.today["instance"] == "cache.r6g.xlarge"
    assert answer.from_info.today["engine"] == "elasticache-redis"


def test_metrics_of_another_cache_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "m.csv"
    other.write_text(METRICS.read_text().replace("orders-", "others-"))
    with pytest.raises(InputError, match="found metrics of others, and none of orders"):
        today([], bill=[EXPORT, other], search=False)
    neither = tmp_path / "n.csv"
    neither.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="valid is an export of a bill"):
        today([], bill=[neither], search=False)


def test_what_is_compared_are_the_parts_of_both() -> None:
    found = todays_bill([EXPORT])

    class Planned:
        bill = ()
        not_priced = ()

    class Answered:
        plans = (Planned(),)

    lines = {each.what: each for each in compare_bill(found.cache, Answered())}  # type: ignore[arg-type]
    assert lines["nodes"].today_usd == pytest.approx(4 * 730 * 0.411)
    assert lines["extended support"].plan_usd == 0
    assert compare_bill(None, Answered()) == []  # type: ignore[arg-type]


def test_the_sum_of_some_lines_is_not_compared_with_that_of_all() -> None:
    """Clients' traffic has a price, what the service's nodes send each other has none."""
    found = todays_bill([EXPORT])
    clients = BillLine(CLIENTS, 40_573.0, "GB", 405.73)
    copies = NotPriced(REPLICAS, 7_546.0, "GB", "no price was found")
    plan = SimpleNamespace(bill=[clients], not_priced=[copies])
    answer: Any = SimpleNamespace(plans=[plan])
    lines = {each.what: each for each in compare_bill(found.cache, answer)}
    assert lines["traffic between zones"].plan_usd is None
    plan.not_priced = []
    lines = {each.what: each for each in compare_bill(found.cache, answer)}
    assert lines["traffic between zones"].plan_usd == pytest.approx(405.73)
