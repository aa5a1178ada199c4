"""Keys in groups, populations of a footprint made of them, and what `--bigkeys` prints."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.today.keys import (
    MOST_GROUPS,
    KeyGroup,
    by_type,
    group_keys,
    group_scans,
    groups_of,
    is_big_keys,
    parse_big_keys,
    populations,
)
from forecache.calibration.today.rdb import KeySizes, RdbReader, ValueSizes
from forecache.models.footprint.schema import MemoryScenario
from forecache.sim.errors import InputError

SAMPLES = Path(__file__).with_name("samples")
SCANS = sorted(SAMPLES.glob("*-bigkeys.txt"))


@pytest.mark.parametrize("path", SCANS, ids=lambda path: path.stem)
def test_a_scan_tells_what_the_file_of_the_same_server_does(path: Path) -> None:
    scan = parse_big_keys(path.read_text(), file="scan")
    dump = path.with_name(path.name.replace("-bigkeys.txt", ".rdb"))
    held = group_keys(RdbReader(dump.read_bytes(), file="dump"), how="RDB")
    assert scan.sampled == held.keys
    assert scan.key_bytes == sum(group.key_bytes for group in held.groups)
    assert not scan.of_memory
    told = {each.kind: (each.keys, each.total) for each in scan.types}
    for kind, (keys, total) in told.items():
        groups = held.of(kind)
        assert keys == sum(group.keys for group in groups)
        counted = "element_bytes" if kind == "string" else "elements"
        assert total == sum(getattr(group, counted) for group in groups)


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*-memkeys.txt")), ids=lambda path: path.stem)
def test_a_scan_of_memory_is_told_apart(path: Path) -> None:
    scan = parse_big_keys(path.read_text(), file="scan")
    assert is_big_keys(path.read_text())
    assert scan.of_memory
    # A key weighs more than its name, and one element stands for all it has.
    assert all(each.total > 40 * each.keys for each in scan.types)
    assert all(group.elements == group.keys for group in groups_of(scan))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("-------- summary", "-------- no", "no line '-------- summary -------'"),
        ("Sampled 31 keys", "Sampled many keys", "found 'many' as sampled keys; valid"),
        ("3 lists with 515", "4 lists with 515", "found 32 keys of all types and 31 sampled ones"),
        ("3 lists with 515", "3 lists with -5", "found '-5' as size of type list"),
        ("3 lists with 515", "lists", "found 'lists items (09.68% of keys, avg size 171.67)'"),
        ("Total key length", "Length", "found a summary without numbers of keys"),
    ],
)
def test_a_bad_scan_is_one_sentence(old: str, new: str, says: str) -> None:
    text = (SAMPLES / "redis-6.2.11-bigkeys.txt").read_text()
    with pytest.raises(InputError, match="scan") as caught:
        parse_big_keys(text.replace(old, new), file="scan")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_scans_of_nodes_add_up() -> None:
    scans = [parse_big_keys(path.read_text(), file="scan") for path in SCANS]
    held = group_scans(scans)
    assert held.keys == sum(scan.sampled for scan in scans)
    [strings] = held.of("string")
    assert strings.element_bytes == sum(
        each.total for scan in scans for each in scan.types if each.kind == "string"
    )


KEYS = st.builds(
    KeySizes,
    key_bytes=st.integers(1, 10**6),
    expires=st.booleans(),
    value=st.builds(
        ValueSizes,
        kind=st.sampled_from(["string", "set", "hash", "sorted_set", "list", "stream", "module"]),
        elements=st.integers(1, 10**7),
        element_bytes=st.integers(0, 10**10),
        value_bytes=st.integers(0, 10**10),
        packed=st.booleans(),
        integers=st.booleans(),
    ),
)


@given(keys=st.lists(KEYS, min_size=1, max_size=300))
def test_groups_lose_nothing_and_make_valid_populations(keys: list[KeySizes]) -> None:
    held = group_keys(keys, how="RDB")
    assert held.keys == len(keys)
    assert len(held.groups) <= MOST_GROUPS
    for name in ("elements", "element_bytes", "value_bytes"):
        total = sum(getattr(group, name) for group in held.groups)
        assert total == pytest.approx(sum(getattr(key.value, name) for key in keys))
    assert sum(group.expiring for group in held.groups) == sum(key.expires for key in keys)
    data = populations(held.groups)
    scenario = MemoryScenario(engine="valkey", data=data)  # type: ignore[arg-type]
    assert sum(population.keys for population in scenario.data) == len(keys)
    assert sum(row["keys"] for row in by_type(held)) == len(keys)


@given(sizes=st.lists(st.integers(0, 10**8), min_size=1, max_size=400, unique=True))
def test_more_kinds_than_there_may_be_become_coarser(sizes: list[int]) -> None:
    keys = [
        KeySizes(place % 40 + 1, False, ValueSizes("string", 1, size))
        for place, size in enumerate(sizes)
    ]
    held = group_keys(keys, how="RDB")
    assert len(held.groups) <= MOST_GROUPS
    assert sum(group.element_bytes or 0 for group in held.groups) == sum(sizes)


def test_populations_have_the_means_of_their_groups() -> None:
    groups = [
        KeyGroup("hash", 10, 100, 80, 400, 1600, 5, packed=True),
        KeyGroup("set", 4, 40, 36, 100, 144, 0, packed=True, integers=True),
        KeyGroup("sorted_set", 2, 20, 32, 320, 64, 0, packed=True),
        KeyGroup("list", 1, 10, 7, None),
        KeyGroup("stream", 1, 10, 50, 1700),
    ]
    assert populations(groups, element_bytes=33) == [
        {"type": "hash", "keys": 10, "key_bytes": 10, "ttl": 0.5, "fields": 8, "field_bytes": 5,
         "value_bytes": 20},
        {"type": "set", "keys": 4, "key_bytes": 10, "ttl": 0.0, "members": 9, "member_bytes": 9,
         "integers": True},  # arrays of four bytes a number
        {"type": "sorted_set", "keys": 2, "key_bytes": 10, "ttl": 0.0, "members": 16,
         "member_bytes": 10, "score_digits": 2},
        {"type": "list", "keys": 1, "key_bytes": 10, "ttl": 0.0, "elements": 7,
         "element_bytes": 33},
        {"type": "string", "keys": 1, "key_bytes": 10, "ttl": 0.0, "value_bytes": 1700},
    ]  # fmt: skip
