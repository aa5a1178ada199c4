"""A scenario given from Python: what NumPy, pandas, polars and Arrow have for lists and numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.models.cost.answer import cost
from forecache.models.footprint.answers import memory
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.source import content_of
from forecache.models.scenario.sweeps import expand
from forecache.sim.errors import InputError

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

LISTS: dict[str, Callable[[list[int]], Any]] = {
    "array": np.array,
    "tuple": tuple,
    "numbers of NumPy": lambda values: [np.int64(value) for value in values],
    "objects": lambda values: np.array(values, dtype=object),
    "pandas": pandas.Series,
    "index": pandas.Index,
    "polars": polars.Series,
    "Arrow": pyarrow.array,
}
THREADS = st.lists(st.integers(1, 16), min_size=1, max_size=6, unique=True)
NODE = {"host": "c7g.4xlarge", "engine": "valkey", "workload": {"keys": 1000}}


@given(THREADS, st.sampled_from(sorted(LISTS)))
def test_a_sweep_of_anything_is_that_of_a_list(threads: list[int], kind: str) -> None:
    plain = content_of(NODE | {"io_threads": {"sweep": threads}})
    other = content_of(NODE | {"io_threads": {"sweep": LISTS[kind](threads)}})
    assert plain == other
    assert {type(value) for value in other["io_threads"]["sweep"]} == {int}
    expected = expand(plain, file="x", schema=Scenario)
    assert expand(other, file="x", schema=Scenario) == expected


@given(
    st.recursive(
        st.one_of(st.integers(-9, 9), st.floats(allow_nan=False), st.text(max_size=3), st.none()),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=10,
    )
)
def test_what_yaml_could_hold_stays_as_it_is(value: Any) -> None:
    assert content_of({"field": value}) == {"field": value}


@given(st.integers(0, 9), st.floats(-1e6, 1e6))
def test_numbers_of_numpy_become_those_of_python(count: int, share: float) -> None:
    given_ = {
        "a": {"b": np.int32(count), "c": np.float64(share), "d": np.array(count)},
        "e": [np.bool_(True), np.str_("x")],
        "f": Path("folder/host.yaml"),
    }
    found = content_of(given_)
    assert found == {
        "a": {"b": count, "c": share, "d": count},
        "e": [True, "x"],
        "f": "folder/host.yaml",
    }
    assert {type(each) for each in (*found["a"].values(), *found["e"])} == {int, float, bool, str}


def test_a_range_of_a_sweep_is_not_written_out() -> None:
    longest = range(10**15)
    assert content_of({"a": {"sweep": longest}})["a"]["sweep"] is longest
    assert content_of({"a": range(2, 5)})["a"] == [2, 3, 4]


def test_a_scenario_that_was_given_is_not_changed() -> None:
    values = np.arange(3)
    source = {"a": {"sweep": values}}
    content_of(source)
    assert source["a"]["sweep"] is values


def test_lists_of_other_kinds_of_scenario_are_taken_as_well() -> None:
    def footprint(keys: Any, weights: Any) -> dict[str, Any]:
        sizes = {"distribution": "weighted", "values": [100, 900], "weights": weights}
        strings = {"type": "string", "keys": keys, "key_bytes": 16, "value_bytes": sizes}
        scenario = {"kind": "memory", "engine": "valkey", "engine_version": "8.1"}
        return {"points": memory(scenario | {"data": [strings]}).to_dict()["points"]}

    of_lists = footprint({"sweep": [1000, 2000]}, [0.25, 0.75])
    assert footprint({"sweep": range(1000, 3000, 1000)}, np.array([0.25, 0.75])) == of_lists


def test_what_is_wrong_in_an_array_is_told_as_of_a_list() -> None:
    def told(threads: Any) -> str:
        with pytest.raises(InputError) as error:
            expand(content_of(NODE | {"io_threads": {"sweep": threads}}), file="x", schema=Scenario)
        return str(error.value)

    assert told(np.array([1, 1])) == told([1, 1])
    assert told(np.array([0, 2])) == told([0, 2])
    assert told(np.array([])) == told([])
    with pytest.raises(InputError, match="no such file"):
        cost("nowhere.yaml")
