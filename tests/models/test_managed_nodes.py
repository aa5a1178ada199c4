"""Managed nodes: what may be used of their memory, and what is not known."""

from forecache.hwprofiles import list_instances
from forecache.models.prices.nodes import list_nodes
from forecache.models.prices.table import NODE_PRICES, load_prices

NODES = {node.name: node for node in list_nodes()}


def test_the_nodes_of_three_services_are_there() -> None:
    assert {node.service for node in NODES.values()} == {"elasticache", "memorydb", "memorystore"}
    assert set(load_prices(NODE_PRICES).nodes.types) < set(NODES)
    assert len(NODES) == len(list_nodes())


def test_usable_memory_is_less_than_the_instance_has() -> None:
    instances = {row.name: row for row in list_instances()}
    compared = 0
    for name, node in NODES.items():
        instance = instances.get(name.split(".", 1)[-1])
        if instance is not None and instance.family not in ("t3", "t4g"):  # their own rules
            compared += 1
            assert node.vcpus == instance.vcpus, name
            if node.usable_bytes is not None:
                assert 0.5 < node.usable_bytes / 2**30 / instance.memory_gib < 0.8, name
            if node.baseline_gbit_per_s is not None:
                assert node.baseline_gbit_per_s == instance.baseline_gbit_per_s, name
                assert node.burst_gbit_per_s == instance.burst_gbit_per_s, name
    assert compared > 40


def test_a_default_reserve_is_taken_off() -> None:
    assert NODES["cache.r7g.large"].usable_bytes == round(14037181030 * 0.75)
    medium = NODES["highmem-medium"].usable_bytes
    assert medium is not None
    assert abs(medium / 2**30 - 10.4) < 1e-6


def test_what_was_not_found_is_none() -> None:
    node = NODES["db.r7g.large"]
    assert (node.usable_bytes, node.usd_per_hour, node.region) == (None, None, None)
    assert node.baseline_gbit_per_s == 0.937
