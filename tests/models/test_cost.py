"""What a cache costs: units, bills, and where two of them meet."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.seeds.predictors import MONTH
from forecache.models.cost.answer import cost
from forecache.models.cost.bill import break_even_load, serverless_bill
from forecache.models.cost.ecpu import ecpu_of_get, ecpu_of_script, ecpu_of_transfer
from forecache.models.cost.prices import load_prices
from forecache.models.cost.schema import CostScenario
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
    [point] = cost(ARTICLE)["points"]
    requests, data = point["serverless"]["lines"]
    assert requests["usd"] == pytest.approx(66.82, abs=0.005)
    assert data["usd"] == pytest.approx(90.0)
    assert point["nodes"]["usd"] == pytest.approx(297.84)
    assert point["serverless"]["usd"] / point["nodes"]["usd"] - 1 == pytest.approx(-0.47, abs=0.005)
    assert point["break_even"]["ecpu_per_s"] == pytest.approx(23_600, rel=0.002)


def test_the_same_month_with_valkey() -> None:
    # Nobody has published a reserved price of Valkey's nodes; on demand they are a fifth cheaper.
    with pytest.raises(InputError, match=r"nodes.payment.*usd_per_month"):
        cost(ARTICLE | {"engine": "valkey"})
    nodes = ARTICLE["nodes"] | {"payment": "on_demand"}
    [valkey] = cost(ARTICLE | {"engine": "valkey", "nodes": nodes})["points"]
    [redis] = cost(ARTICLE | {"nodes": nodes})["points"]
    assert valkey["serverless"]["usd"] == pytest.approx(45.20 + 6.05, abs=0.01)
    assert valkey["nodes"]["usd"] == pytest.approx(0.8 * redis["nodes"]["usd"])


def test_what_is_kept_ready_is_billed_by_the_hour() -> None:
    quiet = [{"command": "get", "per_s": 1_000}]
    data = {"kind": "cost", "engine": "redis", "data_gb": 2, "requests": quiet}
    kept = data | {"serverless": {"least_ecpu_per_s": 100_000}}
    [point] = cost(kept | {"hours_per_month": 1})["points"]
    # 360 million ECPU an hour.
    assert point["serverless"]["lines"][0]["usd"] == pytest.approx(1.224)
    # One busy hour of the day is above what is kept ready, 23 are below it.
    busy = [24.0] + [0.0] * 23
    spread = data | {"hours_per_month": 24, "serverless": {"least_ecpu_per_s": 10_000}}
    [point] = cost(spread | {"hourly_shares": busy})["points"]
    million = 3600 * (24_000 + 23 * 10_000) / 1e6
    assert point["serverless"]["lines"][0]["quantity"] == pytest.approx(million)


def test_node_hours_are_whole_and_new_customers_get_some_free() -> None:
    nodes = {"type": "cache.t3.micro", "shards": 2, "free_tier": True}
    data = {"kind": "cost", "engine": "redis", "data_gb": 0.1, "requests": [_gets(1)]}
    [point] = cost(data | {"hours_per_month": 729.5, "nodes": nodes})["points"]
    assert point["nodes"]["usd"] == pytest.approx((2 * 730 - 750) * 0.017)


def test_nodes_too_small_for_the_data_are_pointed_out() -> None:
    nodes = {"type": "cache.m6g.large", "shards": 1}
    [point] = cost(
        {"kind": "cost", "engine": "redis", "data_gb": 6, "requests": [_gets(1)], "nodes": nodes}
    )["points"]
    assert point["nodes"]["spare_gb"] == pytest.approx(6.854542746 * 0.75 - 6)
    assert "0.9 GB too small" in point["warnings"][0]


def _gets(per_s: float) -> dict[str, Any]:
    return {"command": "get", "per_s": per_s}


@given(
    data_gb=st.floats(0, 20),
    per_s=st.floats(0.1, 1e5),
    least=st.floats(0, 1e5),
    nodes_usd=st.floats(0, 1e5),
)
def test_break_even_is_where_the_bills_meet(
    data_gb: float, per_s: float, least: float, nodes_usd: float
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
    load = break_even_load(scenario, prices, nodes_usd=nodes_usd)
    if load is None:
        assert serverless_bill(scenario, prices, load=1e6).usd < nodes_usd
    elif load == 0:
        assert serverless_bill(scenario, prices, load=0.0).usd >= nodes_usd
    else:
        assert serverless_bill(scenario, prices, load=load).usd == pytest.approx(nodes_usd)
        assert serverless_bill(scenario, prices, load=load * 1.01).usd >= nodes_usd


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
    shipped = Path(__file__).parents[2] / "models" / "cost" / "tables" / f"{TABLE}.yaml"
    own = tmp_path / "prices.yaml"
    own.write_text(shipped.read_text().replace("value: 0.125", "value: 0.25"))
    [point] = cost(ARTICLE | {"prices": str(own)})["points"]
    assert point["serverless"]["lines"][1]["usd"] == pytest.approx(180.0)
    own.write_text(shipped.read_text().replace("source: billing-codes", "source: hearsay"))
    with pytest.raises(InputError, match="hearsay"):
        cost(ARTICLE | {"prices": str(own)})
