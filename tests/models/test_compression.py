"""Values that clients compress: what is stored, what it costs, and what a plan makes of it."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.models.plan import compression as compression_module
from forecache.models.plan.compression import (
    LEAST_PIECES,
    Ratios,
    compression_effect,
    load_codec,
    measure,
    measured_ratios,
    ratio_spread,
    sample_values,
    with_stored_values,
)
from forecache.models.plan.offers import find_offers
from forecache.models.plan.schema import LEVELS, PlanScenario
from forecache.models.plan.shard import memory_bound
from forecache.models.scenario.workload import sizes_of
from forecache.sim.errors import InputError

PLAN: dict[str, Any] = {
    "kind": "plan",
    "demand": {
        "operations": {"get": 30_000, "set": 10_000},
        "keys": 20_000_000,
        "key_bytes": 20,
        "value_bytes": {"values": [512, 4096], "weights": [0.25, 0.75]},
    },
    "objectives": {"slo": {"p99_ms": 1.0}},
    "choices": {
        "instances": ["r7g.xlarge"],
        "engines": [{"engine": "valkey", "versions": ["9.1"]}],
    },
}


def scenario(compression: dict[str, Any] | None, **demand: Any) -> PlanScenario:
    fields = {**PLAN["demand"], **demand}
    if compression is not None:
        fields["compression"] = compression
    return PlanScenario(**{**PLAN, "demand": fields})


def ratios(plan: PlanScenario) -> Ratios:
    found = measured_ratios(plan.demand)
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def _short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are measured briefly: that they are, not how well."""
    monkeypatch.setattr(compression_module, "_ROUND_NS", 200_000)
    monkeypatch.setattr(compression_module, "_ROUNDS", 3)


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Lines of JSON of 200 to 5,000 bytes."""
    draw, path = random.Random(3), tmp_path / "values.jsonl"
    rows = [
        {"id": draw.randrange(10**9), "rows": [{"price": draw.randrange(10**4)} for _ in range(n)]}
        for n in [draw.randrange(10, 300) for _ in range(400)]
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


# --- measuring ------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", sorted(LEVELS))
def test_what_is_measured_is_what_the_compressor_does(algorithm: Any) -> None:
    packer = load_codec(algorithm, LEVELS[algorithm][1])
    text = b"".join(b'{"id": %d}' % i for i in range(40_000))
    pieces = sample_values(text, 4096, lines=False)
    assert packer.decompress(packer.compress(pieces[0])) == pieces[0]
    found = measure(packer, pieces, 4096)
    exact = sum(len(packer.compress(piece)) for piece in pieces) / len(pieces) / 4096
    assert found.ratio.value == pytest.approx(exact)
    assert found.ratio.low <= exact <= found.ratio.high < 0.6
    assert sum(found.ratios) / len(found.ratios) == pytest.approx(exact)
    for times in (found.compress_ns, found.decompress_ns):
        assert 100 < times.low <= times.value <= times.high < 1e8


def test_what_does_not_shrink_stays_as_it_is() -> None:
    noise = random.Random(1).randbytes(40_000)
    found = measure(load_codec("gzip", 6), sample_values(noise, 1000, lines=False), 1000)
    assert found.ratio.value == found.ratio.low == found.ratio.high == 1.0


@given(size=st.integers(1, 5000), length=st.integers(0, 20_000))
def test_pieces_are_as_long_as_the_value_and_in_order(size: int, length: int) -> None:
    sample = bytes(i % 251 for i in range(length))
    pieces = sample_values(sample, size, lines=False)
    assert all(len(piece) == size for piece in pieces)
    assert len(pieces) == min(length // size, 200)


def test_lines_are_about_as_long_as_the_value(sample: Path) -> None:
    pieces = sample_values(sample.read_bytes(), 1000, lines=True)
    assert len(pieces) >= LEAST_PIECES
    assert all(1000 / 1.42 < len(piece) < 1000 * 1.42 for piece in pieces)
    assert all(json.loads(piece)["rows"] for piece in pieces)


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch, sample: Path) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(compression_module.importlib, "import_module", missing)
    plan = scenario({"algorithm": "zstd", "sample": str(sample)})
    with pytest.raises(InputError) as caught:
        measured_ratios(plan.demand)
    assert str(caught.value) == (
        "field 'demand.compression': found zstd without the package zstandard, which compresses "
        "the sample; valid with it (the extra forecache[compression]), or gzip."
    )


@pytest.mark.parametrize(
    ("content", "fields", "says"),
    [
        (None, {}, "no such file"),
        (b"", {}, "found nothing; valid is a file with values"),
        (bytes(9000), {}, "found fewer than 10 pieces as long as a value of 4,096 bytes"),
        (b"line\n" * 99, {"values": "lines"}, "found fewer than 10 lines about as long as"),
    ],
)
def test_a_bad_sample_is_one_sentence(
    content: bytes | None, fields: dict[str, str], says: str, tmp_path: Path
) -> None:
    file = tmp_path / "sample"
    if content is not None:
        file.write_bytes(content)
    plan = scenario({"algorithm": "gzip", "sample": str(file), **fields})
    with pytest.raises(InputError, match=r"field 'demand\.compression'") as caught:
        measured_ratios(plan.demand)
    assert says in str(caught.value).replace("No such", "no such")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("compression", "says"),
    [
        ({"algorithm": "zstd"}, "one of sample and ratio"),
        ({"algorithm": "zstd", "sample": "f", "ratio": 0.5}, "one of sample and ratio"),
        ({"algorithm": "gzip", "ratio": 0.5, "level": 12}, "1 to 9 of gzip"),
        ({"algorithm": "gzip", "ratio": 1.5}, "less than or equal to 1"),
        ({"algorithm": "gzip", "ratio": {"low": 0.5, "high": 0.4}}, "low not above high"),
        ({"algorithm": "snappy", "ratio": 0.5}, "'zstd', 'lz4' or 'gzip'"),
    ],
)
def test_a_bad_field_is_refused(compression: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        scenario(compression)


# --- what is stored -------------------------------------------------------------------------------


def test_values_above_the_size_are_stored_at_the_ratio() -> None:
    data = [
        {"type": "string", "keys": 10, "value_bytes": 4096},
        {"type": "string", "keys": 10, "value_bytes": 1024},
        {"type": "string", "keys": 10, "value_bytes": 5000, "integers": True},
        {"type": "hash", "keys": 10, "fields": 3, "value_bytes": 4096},
    ]
    plan = scenario({"algorithm": "zstd", "ratio": 0.25}, data=data)
    stored = with_stored_values(plan, ratios(plan)).demand
    assert sizes_of(stored.value_bytes) == [(512, 0.25), (1024, 0.75)]
    assert [each.value_bytes for each in stored.data or []] == [1024, 1024, 5000, 4096]
    assert plan.demand.value_bytes != stored.value_bytes  # what was asked stays


@given(
    sizes=st.lists(st.integers(1, 10**6), min_size=1, max_size=32, unique=True),
    ratio=st.floats(0.01, 1.0),
    above=st.integers(0, 10**6),
)
def test_the_mean_of_what_is_stored_is_the_ratio_of_what_is_above(
    sizes: list[int], ratio: float, above: int
) -> None:
    value_bytes = {"values": sizes, "weights": [1.0] * len(sizes)}
    plan = scenario(
        {"algorithm": "lz4", "ratio": ratio, "above_bytes": above}, value_bytes=value_bytes
    )
    stored = sizes_of(with_stored_values(plan, ratios(plan)).demand.value_bytes)
    expected = sum(size if size <= above else max(1, round(size * ratio)) for size in sizes)
    assert sum(size * weight for size, weight in stored) * len(sizes) == pytest.approx(expected)


def test_a_sample_keeps_how_values_differ(sample: Path) -> None:
    plan = scenario({"algorithm": "gzip", "sample": str(sample)}, value_bytes=2000)
    found = ratios(plan)
    stored = sizes_of(with_stored_values(plan, found).demand.value_bytes)
    mean = sum(size * weight for size, weight in stored)
    assert 1 < len(stored) <= 8
    assert mean == pytest.approx(2000 * found.sizes[0].ratio.value, rel=1e-3)
    low, high = ratio_spread(plan.demand, found)
    assert 0.9 < low < 1.0 < high < 1.1
    assert found.compressor is not None
    assert found.compressor.startswith("gzip")


def test_sizes_between_measured_ones_have_numbers_between(sample: Path) -> None:
    many = {"values": [1100 + 20 * i for i in range(32)], "weights": [1.0] * 32}
    plan = scenario({"algorithm": "gzip", "sample": str(sample)}, value_bytes=many)
    found = ratios(plan)
    assert len(found.sizes) == 8
    first, second = found.sizes[:2]
    middle = found.ratio((first.value_bytes + second.value_bytes) // 2).value
    ends = sorted((first.ratio.value, second.ratio.value))
    assert ends[0] <= middle <= ends[1]
    assert found.ratio(10**6).value == found.sizes[-1].ratio.value
    assert found.client_ns(500, compress=True).value == 0.0


# --- what it changes ------------------------------------------------------------------------------


def test_memory_and_network_follow_and_the_interval_of_the_ratio_goes_through() -> None:
    plan = scenario({"algorithm": "zstd", "ratio": {"low": 0.2, "high": 0.4}})
    found = ratios(plan)
    [offer] = find_offers(with_stored_values(plan, found))[0]
    effect = compression_effect(plan, found, offer, shards=2)
    assert effect.value_bytes == 3200
    assert effect.stored_bytes.value == pytest.approx(0.25 * 512 + 0.75 * 0.3 * 4096, abs=1)
    saved = effect.value_bytes - effect.stored_bytes.value
    # Every operation carries one value, and headers of a few digits fewer.
    assert effect.network_bytes_without - effect.network_bytes.value == pytest.approx(saved, abs=2)
    memory = effect.memory_bytes
    assert memory is not None
    assert effect.memory_bytes_without is not None
    assert memory.low < memory.value < memory.high < effect.memory_bytes_without
    assert effect.memory_shards_without == memory_bound(plan, offer).shards
    assert (
        effect.memory_shards_without > memory_bound(with_stored_values(plan, found), offer).shards
    )
    assert effect.client_us is None
    assert effect.client_cpus is None


def test_cpu_time_of_clients_is_told_of_what_is_compressed(sample: Path) -> None:
    plan = scenario({"algorithm": "gzip", "sample": str(sample)})
    found = ratios(plan)
    [offer] = find_offers(with_stored_values(plan, found))[0]
    effect = compression_effect(plan, found, offer, shards=None)
    [size] = effect.sizes
    assert effect.client_us is not None
    assert effect.client_us["set"].value == pytest.approx(0.75 * size.compress_us.value)
    assert effect.client_us["get"].value == pytest.approx(0.75 * size.decompress_us.value)
    mean = 0.25 * effect.client_us["set"].value + 0.75 * effect.client_us["get"].value
    assert effect.client_us_per_operation is not None
    assert effect.client_us_per_operation.value == pytest.approx(mean)
    assert effect.client_cpus is not None
    assert effect.client_cpus.value == pytest.approx(40_000 * mean / 1e6)
    assert effect.memory_bytes is None
    assert effect.cpu_model
