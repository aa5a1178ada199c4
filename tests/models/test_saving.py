"""How long a child takes to write a snapshot, and which pages writes copy meanwhile."""

import math

import pytest

from forecache import verbs
from forecache.models.footprint.limits import PAGE_BYTES, copied_pages
from forecache.models.footprint.saving import (
    EXPECTED,
    SOME_WRITER,
    file_bytes,
    save_s,
    saving_numbers,
    touched_by_writes,
)
from forecache.models.footprint.schema import Hashes, Lists, Sets, SortedSets, Streams, Strings
from forecache.models.footprint.weigh import NodeFootprint, key_weight
from forecache.models.layouts.generations import GENERATIONS, generation

V91, R70 = generation("valkey", "9.1"), generation("redis", "7.0")


def strings(value_bytes: int, **more) -> Strings:
    return Strings(type="string", keys=0, value_bytes=value_bytes, **more)


def lasts(g, population, *, keys=1e6, data_bytes=1e9, **more) -> float:
    return save_s(g, [(keys, population)], data_bytes=data_bytes, **more)


POPULATIONS = [
    strings(16),
    strings(8, integers=True),
    strings(1000, ttl=1.0),
    Sets(type="set", keys=0, members=10),
    Sets(type="set", keys=0, members=10_000),
    Hashes(type="hash", keys=0, fields=10),
    Hashes(type="hash", keys=0, fields=5_000, value_bytes=200),
    SortedSets(type="sorted_set", keys=0, members=100),
    SortedSets(type="sorted_set", keys=0, members=5_000),
    Lists(type="list", keys=0, elements=10_000),
]
STREAM = Streams(type="stream", keys=0, entries=10_000)


@pytest.mark.parametrize("g", GENERATIONS, ids=lambda g: g.name)
def test_every_version_says_how_long_every_type_takes(g) -> None:
    for population in POPULATIONS + ([STREAM] if "stream" in saving_numbers()[g.name].key else []):
        whole = lasts(g, population)
        assert 0.0 < whole < math.inf
        assert lasts(g, population, keys=2e6) == pytest.approx(2.0 * whole)
        assert lasts(g, population, checksum=False) < whole
        plain = lasts(g, population, compression=False)
        assert plain <= whole * 1.001 or population.type == "list"


def test_each_row_of_numbers_is_possible() -> None:
    for name, row in saving_numbers().items():
        numbers = [*row.key.values(), *row.item.values(), row.expiry, row.byte, row.literal_byte]
        assert min(numbers) > 0.0, name
        assert row.literal_byte > row.matched_byte > 0.0


def test_what_compresses_is_written_faster_and_takes_less_room() -> None:
    one = strings(10_000)
    slow, fast = (lasts(R70, one, doubts=EXPECTED._replace(left=left)) for left in (1.0, 0.1))
    assert slow > 2.0 * fast
    assert file_bytes(R70, [(1.0, one)], left=0.1) < 0.12 * file_bytes(R70, [(1.0, one)])
    # Keys and values of up to twenty bytes are never tried.
    assert lasts(R70, strings(20)) == lasts(R70, strings(20), compression=False)


def test_old_versions_checksum_byte_by_byte() -> None:
    def added(g) -> float:
        one = strings(10_000)
        without = lasts(g, one, compression=False, checksum=False)
        return lasts(g, one, compression=False) - without

    assert added(generation("redis", "5.0")) > 1.8 * added(generation("redis", "6.2"))


def test_small_data_stay_in_the_cache_and_a_slow_disk_sets_the_pace() -> None:
    one = strings(16)
    assert lasts(R70, one, data_bytes=1e6) < lasts(R70, one, data_bytes=1e10)
    size = file_bytes(R70, [(1e6, one)])
    assert lasts(R70, one, disk_bytes_per_s=1e6) == pytest.approx(size / 1e6)
    faster = SOME_WRITER._replace(rate_per_ns=2.0 * SOME_WRITER.rate_per_ns)
    assert lasts(R70, one, writer=faster) < lasts(R70, one)


def copied(g, value_bytes: int, writes: float, keys: float = 1e6) -> float:
    one = strings(value_bytes)
    each = key_weight(NodeFootprint(g, g.allocator), one).settled
    touched = touched_by_writes(g, one, data_bytes=each, keys=keys)
    return copied_pages(keys * each, writes_per_s=writes, child_s=1.0, touched=touched)


def test_few_writes_copy_a_page_for_each_block_that_they_change() -> None:
    # Entry, object and string; object and string; object and bucket.
    for g, value_bytes, pages in ((R70, 1000, 3.0), (V91, 1000, 2.0), (V91, 64, 2.0)):
        assert copied(g, value_bytes, 10.0) == pytest.approx(10.0 * pages, rel=0.02)


def test_writes_copy_no_more_than_the_blocks_that_change() -> None:
    each = key_weight(NodeFootprint(V91, "jemalloc"), strings(1000)).settled
    assert copied(V91, 1000, 1e9) == pytest.approx(1e6 * each / PAGE_BYTES, rel=0.01)
    # Of a short value in Valkey 9.1 the object and its place in the table.
    assert copied(V91, 64, 1e9) > copied(V91, 64, 1e5)


def test_a_block_across_pages_counts_for_both() -> None:
    assert copied(R70, 10_000, 10.0) > 10.0 * 4.4


def test_the_answer_says_how_long_a_child_takes() -> None:
    data = [{"type": "string", "keys": 10_000_000, "value_bytes": 512}]
    given = {"kind": "memory", "engine": "redis", "engine_version": "7.0", "data": data}

    def lives(**forking):
        [point] = verbs.memory({**given, "forking": forking}).points
        return point.forked_bytes.child_s

    usual = lives()
    assert usual.low < usual.value < usual.high
    assert lives(rdbcompression=False).value < 0.7 * usual.value
    assert lives(disk_mbyte_per_s=50).value > 60.0
    assert lives(child_s=7).value == lives(child_s=7).high == 7.0
    [point] = verbs.memory(given).points
    assert point.forked_bytes.child_s is None
