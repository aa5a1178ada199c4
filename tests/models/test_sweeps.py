"""Sweeps: every combination, made when it is asked for, from lists, ranges and arrays."""

import itertools
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import MOST_POINTS, Sweep, expand
from forecache.sim.errors import InputError

VALUES = st.lists(
    st.one_of(
        st.integers(-5, 5),
        st.floats(allow_nan=False),
        st.text(max_size=2),
        st.booleans(),
        st.none(),
        st.lists(st.integers(0, 2), max_size=2),
        st.dictionaries(st.text(max_size=1), st.integers(0, 2), max_size=2),
    ),
    min_size=1,
    max_size=6,
)


@given(st.lists(VALUES, max_size=4))
def test_points_are_the_product_in_its_order(values: list[list[Any]]) -> None:
    data = {f"field {n}": {"sweep": each} for n, each in enumerate(values)} | {"other": 1}
    if any(each.index(value) != n for each in values for n, value in enumerate(each)):
        with pytest.raises(InputError, match="twice; valid is each value once"):
            Sweep(data, file="x")
        return
    sweep = Sweep(data, file="x")
    expected = list(itertools.product(*values))
    assert [sweep.combination(point) for point in range(sweep.points)] == expected
    for combination in expected[:3]:
        given = {f"field {n}": value for n, value in enumerate(combination)}
        assert sweep.template.given(combination) == given
        assert sweep.template.filled(combination) == given | {"other": 1}


NODE = {"host": "c7g.large", "engine": "valkey", "workload": {"keys": 1000}}


@pytest.mark.parametrize(
    "values",
    [range(1, 4), np.arange(1, 4), (1, 2, 3), [np.int64(1), np.int32(2), 3]],
    ids=["range", "array", "tuple", "numbers of NumPy"],
)
def test_what_python_has_for_numbers_is_taken(values: Any) -> None:
    cases = expand(NODE | {"io_threads": {"sweep": values}}, file="x", schema=Scenario)
    assert [case.given for case in cases] == [{"io_threads": n} for n in (1, 2, 3)]
    assert {type(case.given["io_threads"]) for case in cases} == {int}
    assert [case.scenario.io_threads for case in cases] == [1, 2, 3]


@pytest.mark.parametrize(
    "values", [range(0), np.zeros(0), np.zeros((2, 2)), 3, "abc", {}, None, []], ids=repr
)
def test_what_has_no_values_is_refused(values: Any) -> None:
    with pytest.raises(InputError, match=r"^x: field 'workload\.clients\.sweep': found "):
        Sweep({"workload": {"clients": {"sweep": values}}}, file="x")


def test_a_long_range_is_no_list() -> None:
    sweep = Sweep({"a": {"sweep": range(10**9)}, "b": {"sweep": [1.5, 2.5]}}, file="x")
    assert sweep.points == 2 * 10**9
    assert sweep.combination(2 * 10**9 - 1) == (10**9 - 1, 2.5)
    assert sys.getsizeof(sweep.values[0]) < 100


@pytest.mark.parametrize("fields", [2, 4000])
def test_too_many_points_for_an_answer_in_memory(fields: int) -> None:
    # Of 4,000 fields a number of points of more digits than Python writes.
    data = {f"f{n}": {"sweep": range(101)} for n in range(fields)}
    assert Sweep(data, file="x").points == 101**fields > MOST_POINTS
    with pytest.raises(InputError, match="valid are 10000; `forecache sweep` takes more"):
        expand(data, file="x", schema=Scenario)


STEP = {
    "host": "c7g.large",
    "engine": "valkey",
    "io_threads": {"sweep": [1, 2]},
    "workload": {"clients": {"sweep": [50, 200, 800]}},
    "load_generator": {"threads": {"sweep": [1, 4, 4], "with": "clients"}},
}


@pytest.mark.parametrize("other", ["clients", "workload.clients"])
def test_a_sweep_with_another_is_in_step_with_it(other: str) -> None:
    sweep = Sweep(
        STEP | {"load_generator": {"threads": {"sweep": [1, 4, 4], "with": other}}}, file="x"
    )
    pairs = [(50, 1), (200, 4), (800, 4)]
    expected = [(threads, *pair) for threads in (1, 2) for pair in pairs]
    assert sweep.points == 6
    assert [sweep.combination(point) for point in range(6)] == expected
    assert sweep.written[2] == {"sweep": [1, 4, 4], "with": "clients"}
    cases = expand(STEP, file="x", schema=Scenario)
    assert [(c.scenario.workload.clients, c.scenario.generator_threads) for c in cases] == 2 * pairs


@pytest.mark.parametrize(
    ("threads", "told"),
    [
        ({"sweep": [1, 4], "with": "clients"}, "threads.sweep': found 2 values; valid are 3"),
        ({"sweep": [1, 4, 8], "with": "client"}, "found 'client'; did you mean 'clients'?"),
        ({"sweep": [1, 4, 8], "with": "threads"}, "with': found 'threads'; "),
        ({"sweep": [1, 4, 8], "with": None}, "with': found 'None'; valid are clients, io_threads."),
    ],
)
def test_a_sweep_is_with_another_of_its_length(threads: Any, told: str) -> None:
    with pytest.raises(InputError) as error:
        Sweep(STEP | {"load_generator": {"threads": threads}}, file="x")
    assert told in str(error.value)


def test_sweeps_with_each_other_are_refused() -> None:
    both = {"a": {"sweep": [1, 2], "with": "b"}, "b": {"sweep": [1, 2], "with": "a"}}
    with pytest.raises(InputError, match=r"'a\.with': found 'b', which is itself with 'a'"):
        Sweep(both, file="x")
