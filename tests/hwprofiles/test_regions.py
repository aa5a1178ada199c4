"""Prices of instances by region: `regions.csv` and what is made of it."""

import pytest

from forecache.hwprofiles import list_instances, load_host
from forecache.hwprofiles.instances import priced_in, region_prices
from forecache.sim.errors import InputError

INSTANCES = {row.name: row for row in list_instances()}
PRICED = [row for row in INSTANCES.values() if row.usd_per_hour is not None]


def test_every_row_prices_an_instance_and_no_two_rows_price_the_same() -> None:
    for region, rows in region_prices().items():
        names = [row.instances for row in rows]
        assert len(names) == len(set(names)), region
        found = [priced_in(row, region) for row in PRICED if row.region != region]
        days = {each.priced for each in found if each is not None}
        assert days == {row.priced for row in rows}, region


def test_no_price_is_far_from_that_of_another_region() -> None:
    """A slip of a digit, or the price of another offer, would be."""
    for region in region_prices():
        for row in PRICED:
            there = priced_in(row, region)
            if there is not None:
                ratio = (there.usd_per_hour or 0.0) / (row.usd_per_hour or 1.0)
                assert 0.55 < ratio < 2.2, (row.name, region)


@pytest.mark.parametrize(
    ("name", "region", "usd_per_hour"),
    [
        # SkyPilot's catalogue, from which no row was taken
        ("r6i.24xlarge", "eu-west-1", 6.768),
        ("r6i.32xlarge", "ap-south-1", 8.32),
        ("r6i.2xlarge", "us-west-1", 0.56),
        # cells of the price lists that rows were made from
        ("c4-standard-2", "europe-west1", 0.1067),
        ("c4-standard-4", "europe-west1", 0.2177),
        ("Standard_D16s_v5", "westeurope", 0.92),
    ],
)
def test_a_size_costs_what_the_region_asks(name: str, region: str, usd_per_hour: float) -> None:
    there = priced_in(INSTANCES[name], region)
    assert there is not None
    assert (there.usd_per_hour, there.region) == (usd_per_hour, region)


def test_an_instance_without_a_price_gets_none_from_the_sizes_beside_it() -> None:
    without = INSTANCES["c7g.4xlarge"].model_copy(update={"usd_per_hour": None, "region": None})
    assert priced_in(INSTANCES["c7g.4xlarge"], "eu-west-1") is not None
    assert priced_in(without, "eu-west-1") is None


def test_a_host_has_the_price_of_its_region_with_its_day() -> None:
    host, there = load_host("c7g.4xlarge"), load_host("c7g.4xlarge", region="eu-west-1")
    assert there.price_usd_per_hour is not None
    assert (there.price_usd_per_hour.value, there.price_usd_per_hour.method) == (
        0.6202,
        "on demand, eu-west-1, read 2025-03-02",
    )
    assert there.model_copy(update={"price_usd_per_hour": host.price_usd_per_hour}) == host
    assert load_host("c7g.4xlarge", region="us-east-1") == host


def test_a_region_without_a_known_price_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(InputError, match=r"found 'mars'.*us-east-1, .*eu-west-1.* usd_per_hour"):
        load_host("c7g.4xlarge", region="mars")
    with pytest.raises(InputError, match=r"eu-west-1.*graviton3.*no price"):
        load_host("graviton3", region="eu-west-1")
