"""Caches as valgrind takes them."""

import pytest
from hypothesis import given as generated
from hypothesis import strategies as st

from forecache.calibration.bundle.profiles import CacheGeometry
from forecache.calibration.observe.profilers.callgrind import _rounded, geometry_of, load_geometry
from forecache.hwprofiles import list_hosts, load_host
from forecache.sim.errors import InputError


@pytest.mark.parametrize(
    ("size_kib", "ways"),
    [(32, 8), (48, 12), (64, 8), (1024, 8), (1280, 10), (2048, 8), (32 * 1024, 8), (36 * 1024, 9)],
)
def test_usual_sizes_are_exact(size_kib: int, ways: int) -> None:
    assert _rounded(size_kib * 1024, 64) == CacheGeometry(
        size_bytes=size_kib * 1024, ways=ways, line_bytes=64
    )


@generated(st.integers(8 * 64, 2**31))
def test_sets_are_a_power_of_two(size_bytes: int) -> None:
    cache = _rounded(size_bytes, 64)
    sets = cache.size_bytes // cache.ways // cache.line_bytes
    assert sets * cache.ways * cache.line_bytes == cache.size_bytes
    assert sets & (sets - 1) == 0
    assert 8 <= cache.ways < 16
    assert size_bytes * 7 / 8 - 64 < cache.size_bytes <= size_bytes


def test_every_host_can_be_simulated() -> None:
    for host in list_hosts():
        second, third = geometry_of(host), geometry_of(host, last_level="L3")
        assert second.l1.size_bytes < second.ll.size_bytes < third.ll.size_bytes


def test_names() -> None:
    assert load_geometry("graviton3") == geometry_of(load_host("graviton3"))
    assert load_geometry("graviton3:L3").last_level == "L3"
    with pytest.raises(InputError, match="graviton9"):
        load_geometry("graviton9")
    with pytest.raises(InputError, match="graviton3:L4"):
        load_geometry("graviton3:L4")
