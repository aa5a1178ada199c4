"""Random streams: the published known answers, address independence, distribution."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from forecache.sim.streams import draw4, exponential_ps, to_unit, to_unit_wide, uniform, uniforms
from tests.sim import native_functions

WORDS = st.integers(0, 2**32 - 1)
ADDRESSES = st.tuples(WORDS, WORDS, WORDS, WORDS, st.integers(0, 2**63 - 1))


# Counter, key and output words of philox4x32 with 10 rounds, from the known-answer file of
# Random123 (Salmon et al. 2011).
@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        (
            (0, 0, 0, 0),
            (0, 0),
            (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        ),
        (
            (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
            (0xFFFFFFFF, 0xFFFFFFFF),
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]
) -> None:
    address = (*key, *counter[2:], counter[0] | counter[1] << 32)
    assert draw4(*address) == native_functions.draw4(*address) == words


@given(ADDRESSES)
def test_c_code_and_python_see_the_same_bits(address: tuple[int, int, int, int, int]) -> None:
    words = draw4(*address)
    unit = uniform(*address)
    assert native_functions.draw4(*address) == words
    assert native_functions.to_unit(words[0]) == to_unit(words[0])
    assert native_functions.uniform(*address) == unit
    assert native_functions.exponential_ps(unit, 1e9) == exponential_ps(unit, 1e9)


@given(ADDRESSES, st.lists(WORDS, max_size=5))
def test_many_streams_at_once_have_the_same_bits(
    address: tuple[int, int, int, int, int], streams: list[int]
) -> None:
    seed, replication, _, purpose, index = address
    expected = [uniform(seed, replication, stream, purpose, index) for stream in streams]
    assert uniforms(seed, replication, streams, purpose, index).tolist() == expected


@given(ADDRESSES)
def test_four_draws_at_once_are_those_of_their_addresses(
    address: tuple[int, int, int, int, int],
) -> None:
    *stream, index = address
    index -= index % 4
    expected = [draw4(*stream, index + following) for following in range(4)]
    assert native_functions.draw4_each(*stream, index) == expected


def test_integers_of_numpy_give_the_same_bits() -> None:
    address = (7, 1, 3, 2, 2**40)
    assert draw4(*np.array(address)) == draw4(*address)


@given(ADDRESSES, st.integers(0, 4))
def test_every_part_of_the_address_matters(
    address: tuple[int, int, int, int, int], part: int
) -> None:
    other = list(address)
    other[part] ^= 1
    assert draw4(*address) != draw4(*other)


def test_units_stay_inside_the_open_interval() -> None:
    largest = 2**32 - 1
    assert 0.0 < to_unit(0) < to_unit(largest) < 1.0
    assert 0.0 < to_unit_wide(0, 0) < to_unit_wide(largest, largest) < 1.0


@given(WORDS, WORDS)
def test_wide_units_refine_narrow_ones(high: int, low: int) -> None:
    assert to_unit_wide(high, low) == pytest.approx(to_unit(high), abs=2.0**-32)


def test_uniform_and_exponential_have_their_distributions() -> None:
    units = np.array([uniform(1, 2, 3, 4, index) for index in range(20_000)])
    assert stats.kstest(units, "uniform").pvalue > 0.01
    times = np.array([exponential_ps(unit, 1e9) for unit in units])
    assert stats.kstest(times / 1e9, "expon").pvalue > 0.01


def test_streams_are_uncorrelated() -> None:
    n = 20_000
    one = np.array([uniform(1, 0, 0, 0, index) for index in range(n)])
    for address in [(2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1)]:
        two = np.array([uniform(*address, index) for index in range(n)])
        assert abs(np.corrcoef(one, two)[0, 1]) < 4.0 / math.sqrt(n)


def test_exponential_rounds_to_the_nearest_picosecond() -> None:
    assert exponential_ps(math.exp(-1.0), 1000.0) == 1000
    assert exponential_ps(math.exp(-0.0014), 1000.0) == 1
    assert exponential_ps(math.exp(-0.0016), 1000.0) == 2
