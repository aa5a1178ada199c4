"""Layouts against published per-key totals and against tables filled at random."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.models.engines.profile import list_engines
from forecache.models.layouts.allocator import size_class
from forecache.models.layouts.blocks import sds_bytes
from forecache.models.layouts.generations import KeyLayout, engines, generation
from forecache.models.layouts.tables import hash_table_load
from forecache.models.memory.contents import child_share, structures
from forecache.models.memory.lines import LINE_BYTES

LAYOUTS = get_args(KeyLayout)

# Bytes per key without buckets, for 16-byte keys: Redis 7.2, Valkey 8.0, 8.1 and 9.1. From the
# allocator's size classes; the totals for 16-byte values are those of valkey.io's measurement.
PER_KEY = {
    8: (80, 72, 48, 40),
    16: (88, 80, 56, 48),
    32: (104, 96, 80, 64),
    44: (112, 104, 88, 80),
    64: (144, 136, 120, 96),
    96: (176, 168, 152, 128),
    100: (176, 168, 152, 152),
    128: (224, 216, 200, 200),
    256: (384, 376, 360, 360),
    512: (704, 696, 680, 680),
    1024: (1344, 1336, 1320, 1320),
}


def bytes_per_key(layout: str, key_bytes: int, value_bytes: int) -> float:
    parts = structures(layout, keys=10**6, key_bytes=key_bytes, value_bytes=value_bytes)
    return sum(part.lines_per_key for part in parts if part.name != "bucket") * LINE_BYTES


@pytest.mark.parametrize(("value_bytes", "expected"), PER_KEY.items())
def test_bytes_per_key(value_bytes: int, expected: tuple[int, ...]) -> None:
    # Those of before 6.0 are held against live servers (test_old_engines.py, footprints).
    later = [layout for layout in LAYOUTS if not layout.startswith("objects")]
    entries = [layout for layout in later if layout != "dict_embedded_value"]
    found = tuple(bytes_per_key(layout, 16, value_bytes) for layout in entries)
    assert found == expected


@pytest.mark.parametrize("keys", [1000, 2**20, 10**6])
def test_an_object_that_hangs_in_its_bucket_is_found_as_in_a_table_filled_at_random(
    keys: int,
) -> None:
    """Objects as in Valkey 8.1, links of 16 bytes for all but the last of a chain."""
    buckets = 2 ** (keys - 1).bit_length()
    chains = np.bincount(np.random.default_rng(1).integers(0, buckets, keys), minlength=buckets)
    chains = chains[chains > 0].astype(float)
    _, link, entry, _ = structures("dict_embedded_value", keys=keys, key_bytes=16, value_bytes=96)
    assert link.lines_per_key * LINE_BYTES == pytest.approx(
        16 * float((chains - 1).sum()) / keys, rel=0.05
    )
    assert entry.touches == pytest.approx(float((chains * (chains + 1) / 2).sum()) / keys, rel=0.03)
    # Whoever is last in its chain is read without its link.
    links = (chains * (chains + 1) / 2 - 1).sum() / keys
    assert link.touches == pytest.approx(float(links), rel=0.03)
    assert (
        entry.lines_per_key
        == structures("hashtable", keys=keys, key_bytes=16, value_bytes=96)[1].lines_per_key
    )


def test_size_classes() -> None:
    # jemalloc with a quantum of 8 bytes: steps of 8 up to 64, then four classes a doubling.
    assert [size_class(n) for n in (0, 1, 8, 9, 63, 64)] == [8, 8, 8, 16, 64, 64]
    assert [size_class(n) for n in (65, 80, 81, 112, 113, 128)] == [80, 80, 96, 112, 128, 128]
    assert [size_class(n) for n in (129, 257, 1025, 5000)] == [160, 320, 1280, 5120]


@given(st.integers(1, 2**24))
def test_a_size_class_holds_the_request_and_wastes_at_most_a_fifth(size: int) -> None:
    given_out = size_class(size)
    assert given_out >= size
    assert size_class(given_out) == given_out
    assert given_out - size < max(8, 0.2 * given_out + 1)


def test_strings_have_headers_by_length() -> None:
    assert [sds_bytes(n) - n for n in (0, 31, 32, 255, 256, 65_535, 65_536)] == [
        2, 2, 4, 4, 6, 6, 10,
    ]  # fmt: skip


def names(layout: str, key_bytes: int, value_bytes: int) -> list[str]:
    parts = structures(layout, keys=10**6, key_bytes=key_bytes, value_bytes=value_bytes)
    return [part.name for part in parts]


@pytest.mark.parametrize(
    ("layout", "largest", "inside", "outside"),
    [
        # 44 bytes fit an object of 64 with its headers, whatever the key.
        (
            "dict",
            44,
            ["bucket", "entry", "key", "value object"],
            ["bucket", "entry", "key", "value object", "value"],
        ),
        (
            "dict_embedded_key",
            44,
            ["bucket", "entry", "value object"],
            ["bucket", "entry", "value object", "value"],
        ),
        (
            "dict_embedded_value",
            25,
            ["bucket", "link", "entry"],
            ["bucket", "link", "entry", "value"],
        ),
        # Key and value together in 64 bytes, later in 128: 16 + 1 + 18 + 4 and 8 + 1 + 18 + 4
        # bytes are taken before the value.
        ("hashtable", 25, ["bucket", "entry"], ["bucket", "entry", "value"]),
        ("hashtable_embedded_value", 97, ["bucket", "entry"], ["bucket", "entry", "value"]),
    ],
)
def test_a_value_lies_inside_up_to_its_limit(
    layout: str, largest: int, inside: list[str], outside: list[str]
) -> None:
    assert names(layout, 16, 0) == names(layout, 16, largest) == inside
    assert names(layout, 16, largest + 1) == outside


def test_an_entry_of_two_lines_waits_for_a_second_one() -> None:
    small, large = (
        structures("hashtable_embedded_value", keys=100, key_bytes=16, value_bytes=size)[1]
        for size in (16, 97)
    )
    assert small.followers == 0.0
    assert 0.9 <= large.followers <= 1.0


@pytest.mark.parametrize("layout", LAYOUTS)
@given(
    keys=st.integers(1, 10**11), key_bytes=st.integers(1, 60_000), value_bytes=st.integers(0, 2**29)
)
def test_every_look_up_is_possible(
    layout: str, keys: int, key_bytes: int, value_bytes: int
) -> None:
    parts = structures(layout, keys=keys, key_bytes=key_bytes, value_bytes=value_bytes)
    assert parts[0].name == "bucket"
    for part in parts:
        assert part.lines_per_key > 0
        assert part.touches >= (0.0 if part.name == "link" else 1.0)
        assert part.followers >= 0.0
    # What is stored is in there somewhere.
    stored = sum(part.lines_per_key for part in parts[1:]) * LINE_BYTES
    assert stored >= key_bytes + value_bytes
    assert stored <= 1.3 * (key_bytes + value_bytes) + 160


@pytest.mark.parametrize("keys", [7, 8, 1000, 2**20, 3_000_000, 25_600_000])
def test_bucket_bytes(keys: int) -> None:
    chained = structures("dict", keys=keys, key_bytes=16, value_bytes=16)[0]
    table = 8 * 2 ** int(np.ceil(np.log2(keys)))
    assert chained.lines_per_key * LINE_BYTES * keys == pytest.approx(max(table, 32))
    assert hash_table_load(keys) <= 7.0
    bucket = structures("hashtable", keys=keys, key_bytes=16, value_bytes=16)[0]
    if keys > 7:
        assert 64 / 7 <= bucket.lines_per_key * LINE_BYTES <= 64 / 3.5


def test_chains_are_as_long_as_random_ones() -> None:
    keys, buckets = 150_000, 2**18
    occupancy = np.bincount(np.random.default_rng(1).integers(0, buckets, keys))
    # The entry at place i of its chain is found after i looks.
    looks = (occupancy * (occupancy + 1) / 2).sum() / keys
    entry = structures("dict", keys=keys, key_bytes=16, value_bytes=16)[1]
    assert entry.touches == pytest.approx(looks, rel=0.005)


@pytest.mark.parametrize("load", [2.0, 3.6, 5.0, 6.9])
def test_child_buckets_are_visited_as_in_a_table_filled_at_random(load: float) -> None:
    buckets = 200_000
    keys = int(load * buckets)
    occupancy = np.bincount(np.random.default_rng(2).integers(0, buckets, keys))
    # Seven fit; with more, one slot becomes the way to a child with all beyond six.
    in_child = np.where(occupancy > 7, occupancy - 6, 0).sum()
    assert child_share(load) == pytest.approx(in_child / keys, abs=0.002)


def test_every_shipped_version_of_an_engine_with_a_footprint_has_its_layout() -> None:
    known = [profile for profile in list_engines() if profile.engine in engines()]
    assert len(known) > 10
    for profile in known:
        assert generation(profile.engine, profile.version).versions, profile.id
