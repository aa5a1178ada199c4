"""What a cache costs: units, bills, and where two of them meet."""

import io
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from evidence.articles.predictors import MONTH
from forecache.hwprofiles.instances import list_instances
from forecache.models.cost.answer import cost
from forecache.models.cost.bill import (
    break_even_load,
    ecpu_of_get,
    ecpu_of_script,
    ecpu_of_transfer,
    serverless_bill,
)
from forecache.models.cost.schema import MOST_SHARDS, CostScenario
from forecache.models.cost.sizing import sizing
from forecache.models.prices.table import load_prices
from forecache.reports.terminal import print_answer
from forecache.sim.errors import InputError

TABLE = "elasticache-us-east-1"

ARTICLE = MONTH
"""An article's example: a day's requests, 100 MB, four reserved nodes."""


def test_units_of_requests() -> None:
    assert ecpu_of_transfer(100) == 1.0
    assert ecpu_of_transfer(3_400) == 3.4
    assert ecpu_of_get(3_200, hit_rate=0.0) == 1.0
    # The article's run with 3.2 KB: sets, hits and misses of half an hour.
    seconds = 1_800
    sets, hits, misses = 13_994, 2_057, 137_890
    gets = ecpu_of_get(3_200, hit_rate=hits / (hits + misses)) * (hits + misses)
    total = seconds * (sets * ecpu_of_transfer(3_200) + gets)
    assert total == pytest.approx(340_655_760)
    assert ecpu_of_script(100.0, us_per_ecpu=2.0) == 50.0
    assert ecpu_of_script(1.0, transferred_bytes=5_000, us_per_ecpu=2.0) == 5.0


def test_the_articles_month() -> None:
    [point] = cost(ARTICLE).points
    requests, data = point.serverless.lines
    assert requests.usd == pytest.approx(66.82, abs=0.005)
    assert data.usd == pytest.approx(90.0)
    assert point.nodes.usd == pytest.approx(297.84)
    assert point.serverless.usd / point.nodes.usd - 1 == pytest.approx(-0.47, abs=0.005)
    assert point.break_even.ecpu_per_s == pytest.approx(23_600, rel=0.002)


def test_the_same_month_with_valkey() -> None:
    # Its nodes are a fifth cheaper, on demand and reserved.
    [reserved] = cost(ARTICLE | {"engine": "valkey"}).points
    assert reserved.nodes.usd == pytest.approx(0.8 * 297.84)
    nodes = ARTICLE["nodes"] | {"payment": "on_demand"}
    [valkey] = cost(ARTICLE | {"engine": "valkey", "nodes": nodes}).points
    [redis] = cost(ARTICLE | {"nodes": nodes}).points
    assert valkey.serverless.usd == pytest.approx(45.20 + 6.05, abs=0.01)
    assert valkey.nodes.usd == pytest.approx(0.8 * redis.nodes.usd)


def test_what_is_kept_ready_is_billed_by_the_hour() -> None:
    quiet = [{"command": "get", "per_s": 1_000}]
    data = {"kind": "cost", "engine": "redis", "data_gb": 2, "requests": quiet}
    kept = data | {"serverless": {"least_ecpu_per_s": 100_000}}
    [point] = cost(kept | {"hours_per_month": 1}).points
    # 360 million ECPU an hour.
    assert point.serverless.lines[0].usd == pytest.approx(1.224)
    # One busy hour of the day is above what is kept ready, 23 are below it.
    busy = [24.0] + [0.0] * 23
    spread = data | {"hours_per_month": 24, "serverless": {"least_ecpu_per_s": 10_000}}
    [point] = cost(spread | {"hourly_shares": busy}).points
    million = 3600 * (24_000 + 23 * 10_000) / 1e6
    assert point.serverless.lines[0].quantity == pytest.approx(million)


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e300, 1e308])
def test_shares_of_hours_have_any_unit(unit: float) -> None:
    nodes = {"type": "cache.m6g.large", "shards": 2, "replicas": 1}
    data = {"kind": "cost", "engine": "redis", "data_gb": 0.1, "requests": [_gets(1_000)]}
    shares = [1.0] * 22 + [0.5, 1.5]
    [point] = cost(data | {"nodes": nodes, "hourly_shares": [unit * s for s in shares]}).points
    [plain] = cost(data | {"nodes": nodes, "hourly_shares": shares}).points
    assert point == plain


def test_node_hours_are_whole_and_new_customers_get_some_free() -> None:
    nodes = {"type": "cache.t3.micro", "shards": 2, "free_tier": True}
    data = {"kind": "cost", "engine": "redis", "data_gb": 0.1, "requests": [_gets(1)]}
    [point] = cost(data | {"hours_per_month": 729.5, "nodes": nodes}).points
    assert point.nodes.usd == pytest.approx((2 * 730 - 750) * 0.017)


def test_nodes_too_small_for_the_data_are_as_many_as_it_needs() -> None:
    nodes = {"type": "cache.m6g.large", "shards": 1, "replicas": 1}
    data = {"kind": "cost", "engine": "redis", "data_gb": 6, "requests": [_gets(1)]}
    [point] = cost(data | {"nodes": nodes}).points
    usable = 6.854542746 * 0.75
    assert point.nodes.shards == 2
    assert point.nodes.count == 4
    assert point.nodes.usd == pytest.approx(4 * 730 * 0.149)
    assert point.nodes.spare_gb == pytest.approx(2 * usable - 6)
    assert "1 shard of cache.m6g.large: 5.141 of 6 GB of data; 2 are needed" in point.warnings[0]


def test_nodes_serve_the_busiest_hour() -> None:
    """Not the mean: a day's load in one hour is 24 times as much."""
    data = {"kind": "cost", "data_gb": 1, "requests": [_gets(20_000)]}
    nodes = {"type": "cache.r7g.large"}
    [even] = cost(data | {"nodes": nodes}).points
    assert (even.nodes.shards, even.warnings) == (1, [])
    [busy] = cost(data | {"nodes": nodes, "hourly_shares": [1.0] + [0.0] * 23}).points
    assert busy.nodes.shards == math.ceil(24 * 20_000 / (0.8 * 60_000 * 2))
    assert busy.serverless.usd == pytest.approx(even.serverless.usd)


def test_nodes_carry_the_busiest_hour() -> None:
    large = [{"command": "get", "per_s": 5_000, "value_bytes": 100_000}]
    data = {"kind": "cost", "data_gb": 1, "requests": large, "nodes": {"type": "cache.r7g.large"}}
    [point] = cost(data).points
    assert point.nodes.shards == math.ceil(5_000 * 100_100 * 8e-9 / (0.8 * 0.937))
    assert "Gbit/s in the peak hour" in point.warnings[0]


def test_an_impossible_type_is_refused_and_another_named() -> None:
    data = {"kind": "cost", "data_gb": 3_000, "requests": [_gets(1)]}
    message = (
        r"field nodes.type: found 'cache.t4g.micro', of which data need 7,451 shards; valid is"
    )
    with pytest.raises(InputError, match=message) as caught:
        cost(data | {"nodes": {"type": "cache.t4g.micro"}})
    found = re.search(r"such as (\d+) shards of (\S+)\.$", str(caught.value))
    assert found is not None
    nodes = {"type": found[2], "shards": int(found[1])}
    [point] = cost(data | {"nodes": nodes}).points
    assert (point.nodes.shards, point.warnings) == (nodes["shards"], [])


def test_a_type_of_ones_own_is_not_held_against_anything() -> None:
    nodes = {"type": "my.large", "usd_per_month": 10}
    data = {"kind": "cost", "data_gb": 1_000, "requests": [_gets(1e6)], "nodes": nodes}
    [point] = cost(data).points
    assert point.nodes.usd == 10
    assert "does not know my.large" in point.warnings[0]


def test_the_table_has_the_instances_vcpus_and_networks() -> None:
    instances = {f"cache.{row.name}": row for row in list_instances()}
    both = {name: row for name, row in load_prices(TABLE).nodes.types.items() if name in instances}
    assert len(both) >= 21
    assert both.pop("cache.t4g.micro").vcpus == both.pop("cache.t3.micro").vcpus == 0.2, "baseline"
    for name, row in both.items():
        assert row.vcpus == instances[name].vcpus
        assert row.baseline_gbit_per_s == instances[name].baseline_gbit_per_s


@settings(max_examples=40)
@given(
    st.sampled_from(sorted(load_prices(TABLE).nodes.types)),
    st.floats(0, 100),
    st.floats(0, 1e5),
    st.floats(0, 20_000),
    st.floats(1, 3),
)
def test_more_of_anything_never_needs_fewer_nodes(
    node_type: str, data_gb: float, per_s: float, value_bytes: float, factor: float
) -> None:
    def shards(data_gb: float, per_s: float, value_bytes: float) -> int:
        asked = [{"command": "get", "per_s": per_s, "value_bytes": value_bytes}]
        scenario = {"kind": "cost", "data_gb": data_gb, "requests": asked}
        described = CostScenario.model_validate(scenario | {"nodes": {"type": node_type}})
        try:
            return sizing(described, load_prices(TABLE)).shards
        except InputError:
            return MOST_SHARDS + 1

    base = shards(data_gb, per_s, value_bytes)
    assert shards(factor * data_gb, per_s, value_bytes) >= base
    assert shards(data_gb, factor * per_s, value_bytes) >= base
    assert shards(data_gb, per_s, factor * value_bytes) >= base


@settings(max_examples=30)
@given(st.floats(0, 50), st.floats(1, 50_000), st.integers(1, 20), st.integers(0, 3))
def test_bills_add_up_and_nodes_are_enough(
    data_gb: float, per_s: float, shards: int, replicas: int
) -> None:
    nodes = {"type": "cache.r7g.large", "shards": shards, "replicas": replicas}
    [point] = cost(
        {"kind": "cost", "data_gb": data_gb, "requests": [_gets(per_s)], "nodes": nodes}
    ).points
    assert point.nodes is not None
    for bill in (point.serverless, point.nodes):
        assert sum(line.usd for line in bill.lines) == pytest.approx(bill.usd)
    found = point.nodes
    assert found.shards >= shards
    assert found.serves_load >= 1.0 - 1e-9
    assert found.spare_gb >= -1e-9
    assert all(found.shards >= need.shards() for need in found.needs)
    assert bool(point.warnings) is (found.shards > shards)
    meets = point.break_even
    if meets.load is not None:
        assert meets.shards >= found.shards
        assert meets.load_if_enough <= meets.load + 1e-9


def test_a_page_for_people() -> None:
    """Groups of three digits, warnings before prices, and cents that add up."""
    console = Console(file=io.StringIO(), width=100)
    data = {"kind": "cost", "data_gb": 13, "requests": [_gets(47_300)]}
    print_answer(cost(data | {"nodes": {"type": "cache.t4g.micro"}}), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "e+" not in text
    assert "124,304  million ECPU" in text
    assert text.index("33 are needed, and priced") < text.index("USD")
    amounts = [
        [float(cell.replace(",", "")) for cell in re.findall(r"\d[\d,]*\.\d\d(?!\d)", line)]
        for line in text[text.index("serverless  ") : text.index("nodes  ")].splitlines()
    ]
    assert sum(amounts[n][0] for n in (1, 2)) == pytest.approx(amounts[0][0], abs=0.001)


def _gets(per_s: float) -> dict[str, Any]:
    return {"command": "get", "per_s": per_s}


@given(
    data_gb=st.floats(0, 20),
    per_s=st.floats(0.1, 1e5),
    least=st.floats(0, 1e5),
    usd=st.floats(0, 1e5),
)
def test_break_even_is_where_the_bills_meet(
    data_gb: float, per_s: float, least: float, usd: float
) -> None:
    scenario = CostScenario.model_validate(
        {
            "kind": "cost",
            "data_gb": data_gb,
            "requests": [_gets(per_s)],
            "serverless": {"least_ecpu_per_s": least},
        }
    )
    prices = load_prices(TABLE)
    load = break_even_load(scenario, prices, usd=usd)
    if load is None:
        assert serverless_bill(scenario, prices, load=1e6).usd < usd
    elif load == 0:
        assert serverless_bill(scenario, prices, load=0.0).usd >= usd
    else:
        assert serverless_bill(scenario, prices, load=load).usd == pytest.approx(usd)
        assert serverless_bill(scenario, prices, load=load * 1.01).usd >= usd


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prices": "nowhere"}, "field prices: found 'nowhere'; valid is elasticache-us-east-1"),
        ({"requests": [{"command": "get"}]}, "either per_day or per_s"),
        ({"requests": [{"command": "script", "per_s": 1}]}, "processor_us"),
        ({"requests": [_gets(1) | {"command": "set", "hit_rate": 0.5}]}, "hit_rate"),
        ({"hourly_shares": [0.0] * 24}, "one share above 0"),
        ({"nodes": {"type": "cache.m6g.larg"}}, "did you mean 'cache.m6g.large'"),
    ],
)
def test_a_mistake_is_told(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cost(ARTICLE | change)


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "models" / "prices" / "tables" / f"{TABLE}.yaml"
    own = tmp_path / "prices.yaml"
    own.write_text(shipped.read_text().replace("value: 0.125", "value: 0.25"))
    [point] = cost(ARTICLE | {"prices": str(own)}).points
    assert point.serverless.lines[1].usd == pytest.approx(180.0)
    own.write_text(shipped.read_text().replace("source: billing-codes", "source: hearsay"))
    with pytest.raises(InputError, match="hearsay"):
        cost(ARTICLE | {"prices": str(own)})
