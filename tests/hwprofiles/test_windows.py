"""Reorder windows of cores, by what catalogue and captured hosts call them."""

import pytest

from forecache.hwprofiles import list_hosts, load_host
from forecache.hwprofiles.schema import OTHER_CORES, reorder_window


@pytest.mark.parametrize(
    ("microarchitecture", "window"),
    [("Neoverse V2, CMN-700", 320.0), ("Penryn to Sandy Bridge", 168.0), ("Zen 4", 320.0)],
)
def test_a_core_is_found_by_its_name(microarchitecture: str, window: float) -> None:
    assert reorder_window(microarchitecture).best == window


@pytest.mark.parametrize(
    ("family", "window"),
    [("25-1", 256.0), ("25-17", 320.0), ("26-2", 448.0), ("6-143", 512.0), ("6-106", 352.0)],
)
def test_a_captured_host_has_family_and_model_in_its_id(family: str, window: float) -> None:
    assert reorder_window("a CPU", f"captured-a-cpu-{family}-2cpus").best == window
    # Nowhere else: such numbers could mean anything.
    assert reorder_window("a CPU", f"host-{family}") is OTHER_CORES


def test_every_host_of_the_catalogue_has_a_core_that_is_known() -> None:
    for host in list_hosts():
        assert host.reorder_window is not OTHER_CORES, host.id


def test_a_window_is_drawn_where_a_neighbour_may_take_half_of_it() -> None:
    assert load_host("sapphire-rapids").uncertain()["reorder_window"] == (256.0, 512.0, 512.0)
    assert "reorder_window" not in load_host("graviton4").uncertain()
