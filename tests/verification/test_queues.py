"""Queues in C and in SimPy: the same completions, and conservation laws of each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verification.queueing import queues, queues_reference
from verification.queueing.queues import DETERMINISTIC, EXPONENTIAL, HYPEREXPONENTIAL

# From a few picoseconds, where simultaneous events are common, to a microsecond.
MEANS_PS = st.sampled_from([2.0, 10.0, 1e3, 1e6])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    replication=st.integers(0, 1000),
    servers=st.integers(1, 5),
    load=st.floats(0.1, 1.5),
    mean_ps=MEANS_PS,
    kind=st.sampled_from([EXPONENTIAL, DETERMINISTIC, HYPEREXPONENTIAL]),
)
def test_open_queue_twins_are_equal(
    seed: int, replication: int, servers: int, load: float, mean_ps: float, kind: int
) -> None:
    customers = 200
    compiled = np.zeros((2, customers), np.int64)
    reference = np.zeros((2, customers), np.int64)
    given = (seed, replication, customers, servers, mean_ps / servers / load, mean_ps, kind, 4.0)
    one = queues.open_queue(*given, *compiled)
    two = queues_reference.open_queue(*given, *reference)
    assert one == two
    np.testing.assert_array_equal(compiled, reference)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    machines=st.integers(1, 8),
    repairmen=st.integers(1, 4),
    life_ps=MEANS_PS,
    repair_ps=MEANS_PS,
)
def test_machine_repair_twins_are_equal(
    seed: int, machines: int, repairmen: int, life_ps: float, repair_ps: float
) -> None:
    repairs = 150
    compiled = np.zeros(repairs, np.int64)
    reference = np.zeros(repairs, np.int64)
    given = (seed, 0, repairs, machines, repairmen, life_ps, repair_ps)
    assert queues.machine_repair(*given, compiled) == queues_reference.machine_repair(
        *given, reference
    )
    np.testing.assert_array_equal(compiled, reference)


@pytest.mark.parametrize("servers", [1, 3])
def test_littles_law_and_conservation(servers: int) -> None:
    customers = 20_000
    completions_ps = np.zeros(customers, np.int64)
    sojourns_ps = np.zeros(customers, np.int64)
    sum_ps, area_ps, last_ps = queues.open_queue(
        3,
        1,
        customers,
        servers,
        1.25e6 / servers,
        1e6,
        EXPONENTIAL,
        1.0,
        completions_ps,
        sojourns_ps,
    )
    assert area_ps == sum_ps == sojourns_ps.sum()
    assert last_ps == completions_ps[-1]
    assert (np.diff(completions_ps) >= 0).all()
    arrivals_ps = completions_ps - sojourns_ps
    assert (arrivals_ps > 0).all()
    if servers == 1:
        assert (np.diff(arrivals_ps) >= 0).all()


def test_service_times_have_their_moments() -> None:
    words = np.random.default_rng(1).integers(0, 2**32, (50_000, 2), dtype=np.uint64)
    for kind, variation in [(EXPONENTIAL, 1.0), (HYPEREXPONENTIAL, 4.0), (DETERMINISTIC, 0.0)]:
        times = np.array(
            [
                queues_reference.service_ps(kind, 1e6, 4.0, int(high), int(low))
                for high, low in words
            ],
            float,
        )
        assert times.mean() == pytest.approx(1e6, rel=0.03)
        assert times.var() / times.mean() ** 2 == pytest.approx(variation, rel=0.1, abs=1e-12)


def test_an_endless_line_is_reported() -> None:
    nothing = np.zeros(0, np.int64)
    with pytest.raises(OverflowError, match="LINE_CAPACITY"):
        queues.open_queue(1, 0, 200_000, 1, 1e3, 1e6, EXPONENTIAL, 1.0, nothing, nothing)
