"""What goes over the wire, against plain Python."""

import itertools
import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.bundle.points import Conditions, Popularity
from forecache.calibration.drive.connection import MEMCACHED, RESP, Protocol
from forecache.calibration.drive.loadgen import (
    ThreadLoad,
    check_load,
    new_control,
    scan_replies,
    scatter_stride,
    zipf_rank,
)
from forecache.sim.errors import InputError


def encode(spec: Conditions, base: int, count: int, *, sequential: bool = False) -> bytes:
    load = ThreadLoad(
        spec.model_copy(update={"pipeline": count}), 0, new_control(), sequential=sequential
    )
    return load.encoded(base, count)


def parse(data: bytes) -> list[list[bytes]]:
    """A strict RESP parser for requests."""
    commands = []
    at = 0
    while at < len(data):
        head = re.compile(rb"\*(\d+)\r\n").match(data, at)
        assert head, data[at : at + 20]
        at = head.end()
        words = []
        for _ in range(int(head[1])):
            size = re.compile(rb"\$(\d+)\r\n").match(data, at)
            assert size, data[at : at + 20]
            end = size.end() + int(size[1])
            words.append(data[size.end() : end])
            assert data[end : end + 2] == b"\r\n"
            at = end + 2
        commands.append(words)
    return commands


def keys_of(spec: Conditions, count: int) -> list[int]:
    return [int(words[1].lstrip(b"key:k")) for words in parse(encode(spec, 0, count))]


def test_loading_names_every_key_once_with_its_size() -> None:
    spec = Conditions(command="set", keys=300, key_bytes=20, value_sizes=((7, 1), (70, 3)))
    commands = parse(encode(spec, 0, 300, sequential=True))
    assert [words[:2] for words in commands] == [
        [b"SET", b"key:kkkk%012d" % number] for number in range(300)
    ]
    sizes = Counter(len(words[2]) for words in commands)
    assert set(sizes) == {7, 70}
    # 300 draws with probability 1/4: five standard deviations are 37.5.
    assert abs(sizes[7] - 75) < 38


def test_a_key_keeps_its_size() -> None:
    spec = Conditions(command="set", keys=50, value_sizes=((7, 1), (70, 3)))
    loaded = {w[1]: len(w[2]) for w in parse(encode(spec, 0, 50, sequential=True))}
    for words in parse(encode(spec, 0, 500)):
        assert loaded[words[1]] == len(words[2])


def test_a_batch_is_the_same_whenever_it_is_encoded() -> None:
    spec = Conditions(command="mix", keys=1000, value_sizes=((10, 1), (100, 1)))
    whole = parse(encode(spec, 500, 40))
    assert whole == parse(encode(spec, 500, 15)) + parse(encode(spec, 515, 25))
    assert whole != parse(encode(spec, 501, 40))


@pytest.mark.parametrize("get_fraction", [1.0, 0.0, 0.8])
def test_mix(get_fraction: float) -> None:
    spec = Conditions(
        command={1.0: "get", 0.0: "set"}.get(get_fraction, "mix"),  # type: ignore[arg-type]
        get_fraction=get_fraction,
        keys=10,
    )
    gets = sum(words[0] == b"GET" for words in parse(encode(spec, 0, 4000)))
    deviation = math.sqrt(4000 * get_fraction * (1 - get_fraction))
    assert abs(gets - 4000 * get_fraction) <= 5 * deviation


def test_uniform_keys() -> None:
    counts = np.bincount(keys_of(Conditions(command="get", keys=64), 64_000), minlength=64)
    assert len(counts) == 64
    chi_square = float(((counts - 1000.0) ** 2 / 1000.0).sum())
    assert chi_square < 63 + 5 * math.sqrt(2 * 63)


@pytest.mark.parametrize("exponent", [0.5, 0.99, 1.0, 1.5])
def test_zipf_ranks_have_their_probabilities(exponent: float) -> None:
    keys, draws = 50, 40_000
    ranks = [zipf_rank(keys, exponent, seed=3, stream=0, number=number) for number in range(draws)]
    weights = np.arange(1, keys + 1) ** -exponent
    expected = draws * weights / weights.sum()
    counts = np.bincount(ranks, minlength=keys)
    assert len(counts) == keys
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < keys - 1 + 5 * math.sqrt(2 * (keys - 1))


def test_hot_set_gets_its_share() -> None:
    hot = Popularity(kind="hot_set", hot_keys_fraction=0.1, hot_requests_fraction=0.9)
    counts = Counter(keys_of(Conditions(command="get", keys=100, popularity=hot), 20_000))
    top = sum(count for _, count in counts.most_common(10))
    assert abs(top - 18_000) < 5 * math.sqrt(20_000 * 0.9 * 0.1)
    assert len(counts) == 100


def test_a_hot_set_of_many_keys_is_scattered_exactly() -> None:
    keys = 4_000_000_000
    hot = Popularity(kind="hot_set", hot_keys_fraction=1e-6, hot_requests_fraction=0.9)
    rank_of = pow(scatter_stride(keys), -1, keys)
    ranks = [
        key * rank_of % keys
        for key in keys_of(Conditions(command="get", keys=keys, popularity=hot), 2000)
    ]
    assert abs(sum(rank < 4000 for rank in ranks) - 1800) < 5 * math.sqrt(2000 * 0.9 * 0.1)


@given(st.integers(1, 100_000))
def test_scattering_reaches_every_key(keys: int) -> None:
    stride = scatter_stride(keys)
    assert math.gcd(stride, keys) == 1
    if keys <= 2000:
        assert len({rank * stride % keys for rank in range(keys)}) == keys


def test_memcached_is_asked_for_the_same_keys() -> None:
    spec = Conditions(command="mix", keys=300, key_bytes=20, value_sizes=((0, 1), (70, 3)))
    load = ThreadLoad(
        spec.model_copy(update={"pipeline": 200}), 0, new_control(), protocol=MEMCACHED
    )
    text = load.encoded(0, 200)
    asked = re.compile(
        rb"(?P<name>get|set) (?P<key>key:k{4}\d{12})(?: 0 0 (?P<size>\d+)\r\n(?P<value>v*))?\r\n"
    )
    at = 0
    for words in parse(encode(spec, 0, 200)):
        found = asked.match(text, at)
        assert found, text[at : at + 40]
        assert (found["name"].upper(), found["key"]) == (words[0], words[1])
        assert ([found["value"]] if found["name"] == b"set" else []) == words[2:]
        assert found["size"] is None or int(found["size"]) == len(found["value"])
        at = found.end()
    assert at == len(text)


REPLIES = st.lists(
    st.one_of(
        st.just((b"+OK\r\n", 0, 0)),
        st.just((b":12\r\n", 0, 0)),
        st.just((b"$-1\r\n", 0, 1)),
        st.just((b"-ERR wrong $5\r\n", 1, 0)),
        st.binary(max_size=40).map(lambda body: (b"$%d\r\n%s\r\n" % (len(body), body), 0, 0)),
    ),
    max_size=12,
)


_ERRORS = (
    b"ERROR\r\n",
    b"NOT_STORED\r\n",
    b"CLIENT_ERROR bad data chunk\r\n",
    b"SERVER_ERROR object too large for cache\r\n",
)

_KEYS = st.text("VALUENDSTOR0123456789", min_size=1, max_size=250)


def _found(key: str, body: bytes) -> tuple[bytes, int, int]:
    return b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key.encode(), len(body), body), 0, 0


TEXT_REPLIES = st.lists(
    st.one_of(
        st.just((b"STORED\r\n", 0, 0)),
        st.just((b"END\r\n", 0, 1)),
        st.sampled_from(_ERRORS).map(lambda line: (line, 1, 0)),
        st.builds(_found, _KEYS, st.binary(max_size=40)),
        # A value may look like any reply.
        st.builds(_found, _KEYS, st.sampled_from([*_ERRORS, b"END\r\n", b"\r\nEND\r\n"])),
    ),
    max_size=12,
)

ANY_REPLIES = st.one_of(
    st.tuples(st.just(RESP), REPLIES), st.tuples(st.just(MEMCACHED), TEXT_REPLIES)
)


@given(ANY_REPLIES, st.data())
def test_replies_are_counted_however_they_are_cut(
    spoken: tuple[Protocol, list[tuple[bytes, int, int]]], data: st.DataObject
) -> None:
    protocol, replies = spoken
    stream = b"".join(reply for reply, _, _ in replies)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6).map(sorted))
    edges = [0, *cuts, len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    done, counters = scan_replies(pieces, protocol)
    assert sum(done) == len(replies)
    assert min(done) >= 0
    assert counters["errors"] == sum(errors for _, errors, _ in replies)
    assert counters["misses"] == sum(misses for _, _, misses in replies)


@pytest.mark.parametrize(
    "bad", [b"HTTP/1.1", b"$1x\r\n", b"*1\r\n", b"+OK\r\n\r\n", b"$" + b"9" * 30]
)
def test_what_is_no_reply_is_refused(bad: bytes) -> None:
    done, _ = scan_replies([bad])
    assert done == [-1]


@pytest.mark.parametrize(
    "bad",
    [
        b"HTTP/1.1",
        b"$3\r\nabc\r\n",
        b"\r\n",
        b"STORE\r\n",
        b"STORED 1\r\n",
        b"END 1\r\n",
        b"ENDING\r\n",
        b"VERSION 1.6.38\r\n",
        b"VALUE k 0\r\n",
        b"VALUE k 0 x\r\n",
        b"VALUE k 0 \r\n",
        b"VALUE k 0 1 2\r\n",
        b"VALUE k 0 -1\r\n",
        b"VALUE k 0 " + b"9" * 30,
        b"VALUE k 0 1\r\nv\r\nSTORED\r\n",
        b"CLIENT_ERROR " + b"x" * 4000,
    ],
)
def test_what_is_no_reply_of_memcached_is_refused(bad: bytes) -> None:
    for pieces in ([bad], [bad[i : i + 1] for i in range(len(bad))]):
        done, _ = scan_replies(pieces, MEMCACHED)
        assert -1 in done


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"keys": 0}, "keys"),
        ({"keys": 101, "key_bytes": 2}, "keys"),
        ({"key_bytes": 0}, "key_bytes"),
        ({"get_fraction": 1.5}, "get_fraction"),
        ({"pipeline": 0}, "pipeline"),
        ({"clients": 0}, "clients"),
        ({"generator_threads": 51}, "generator_threads"),
        ({"rate_rps": -1.0}, "rate_rps"),
        ({"think_us": -1.0}, "think_us"),
        ({"value_sizes": ((-5, 1.0),)}, "value_sizes"),
        ({"value_sizes": ()}, "value_sizes"),
        ({"value_sizes": ((5, 0.0),)}, "weight"),
        ({"value_sizes": ((2**25, 1.0),), "pipeline": 64}, "one batch"),
        ({"popularity": Popularity(kind="normal")}, "popularity"),
        ({"popularity": Popularity(kind="zipf", exponent=0.0)}, "exponent"),
        ({"popularity": Popularity(kind="hot_set", hot_keys_fraction=1.0)}, "hot_keys_fraction"),
    ],
)
def test_impossible_loads_are_refused(change: dict[str, object], field: str) -> None:
    with pytest.raises(InputError, match=f"load: .*{field}.*valid is"):
        check_load(Conditions(command="get", keys=100).model_copy(update=change))
