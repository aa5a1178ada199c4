"""Queues with known answers, on the event calendar: they verify it and measure its speed.

`open_queue` is M/M/c, M/D/c and M/G/c with one line, first come first served; `machine_repair` is
the machine repairman. Both are C (`native/queues.c`), on the calendar and the random numbers that
the node has. `queues_reference` has the same models as SimPy processes, and both give the same
completion times.

The random numbers of a customer are one draw, addressed by the customer's number: its distance
from the customer before and the service it needs. Those of a machine are addressed by the machine
and the number of its life.
"""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from forecache.sim.calendar import new_calendar
from forecache.sim.native import Layout, library, pointer

_SOURCES = Path(__file__).parent / "native"
_LAYOUT = Layout(_SOURCES / "queues.h")
_LIBRARY = library(_SOURCES)
for _function in (_LIBRARY.open_queue, _LIBRARY.machine_repair):
    _function.argtypes, _function.restype = [ctypes.c_void_p, ctypes.c_void_p], None
_LIBRARY.record_all.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
_LIBRARY.record_all.restype = None

EXPONENTIAL = _LAYOUT.constants["EXPONENTIAL"]
DETERMINISTIC = _LAYOUT.constants["DETERMINISTIC"]
HYPEREXPONENTIAL = _LAYOUT.constants["HYPEREXPONENTIAL"]
"""Kinds of service time. The last is a mixture of two exponentials with balanced means."""

PURPOSE_CUSTOMER = _LAYOUT.constants["PURPOSE_CUSTOMER"]
PURPOSE_MACHINE = _LAYOUT.constants["PURPOSE_MACHINE"]

LINE_CAPACITY = _LAYOUT.constants["LINE_CAPACITY"]
"""Customers that can wait."""


def open_queue(
    seed: int,
    replication: int,
    customers: int,
    servers: int,
    interarrival_ps: float,
    mean_service_ps: float,
    kind: int,
    squared_variation: float,
    completions_ps: np.ndarray,
    sojourns_ps: np.ndarray,
) -> tuple[int, int, int]:
    """Serve a number of customers who arrive as a Poisson process.

    Parameters
    ----------
    seed, replication : int
        Address of the random numbers.
    customers : int
        How many arrive; all are served.
    servers : int
        Identical servers; a customer goes to the idle one with the lowest number.
    interarrival_ps, mean_service_ps : float
        Means in picoseconds.
    kind : int
        Of the service time: EXPONENTIAL, DETERMINISTIC or HYPEREXPONENTIAL.
    squared_variation : float
        Of the service time: variance over squared mean, at least 1; HYPEREXPONENTIAL only.
    completions_ps, sojourns_ps : ndarray of int64
        Filled, in the order of completion, with the time each customer leaves and how long it
        was there, as far as they are long.

    Returns
    -------
    tuple of int
        Sum of the times in the system, integral of the number in the system over time (both in
        ps; equal, by Little's law, once all have left), and the time the last one left.

    Raises
    ------
    OverflowError
        If more than LINE_CAPACITY customers wait.
    """
    queue = _run(
        "open_queue",
        agents=1 + servers,
        seed=seed,
        replication=replication,
        customers=customers,
        servers=servers,
        interarrival_ps=interarrival_ps,
        mean_service_ps=mean_service_ps,
        kind=kind,
        squared_variation=squared_variation,
        kept=min(completions_ps.size, sojourns_ps.size),
        completions_ps=completions_ps,
        sojourns_ps=sojourns_ps,
        line=np.empty(LINE_CAPACITY, _LAYOUT.dtypes["customer"]),
        in_service=np.empty(1 + servers, _LAYOUT.dtypes["customer"]),
    )
    if queue["line_was_full"]:
        raise OverflowError("the line is longer than LINE_CAPACITY")
    return int(queue["sum_ps"]), int(queue["area_ps"]), int(queue["last_ps"])


def machine_repair(
    seed: int,
    replication: int,
    repairs: int,
    machines: int,
    repairmen: int,
    mean_life_ps: float,
    mean_repair_ps: float,
    completions_ps: np.ndarray,
) -> tuple[int, int]:
    """Machines fail and wait for a repairman: the closed queue M/M/c//N.

    Parameters
    ----------
    seed, replication : int
        Address of the random numbers.
    repairs : int
        How many repairs to simulate.
    machines, repairmen : int
        Machine i is agent i, the repairmen come after; a machine goes to the idle repairman with
        the lowest number.
    mean_life_ps, mean_repair_ps : float
        Means of the exponential times in picoseconds.
    completions_ps : ndarray of int64
        Filled with the time each repair ends, as far as it is long.

    Returns
    -------
    tuple of int
        Integral of the number of working machines over time, and the time the last repair ended,
        both in ps.
    """
    shop = _run(
        "machine_repair",
        agents=machines + repairmen,
        seed=seed,
        replication=replication,
        repairs=repairs,
        machines=machines,
        repairmen=repairmen,
        mean_life_ps=mean_life_ps,
        mean_repair_ps=mean_repair_ps,
        kept=completions_ps.size,
        completions_ps=completions_ps,
        line=np.empty(machines, np.int64),
        machine_of=np.empty(machines + repairmen, np.int64),
        life=np.zeros(machines, np.int64),
    )
    return int(shop["area_ps"]), int(shop["last_ps"])


def record_all(counts: np.ndarray, values_ps: np.ndarray) -> None:
    """Count values in the array of a histogram."""
    values_ps = np.ascontiguousarray(values_ps, np.int64)
    _LIBRARY.record_all(pointer(counts), pointer(values_ps), values_ps.size)


def _run(model: str, *, agents: int, **given: Any) -> Any:
    """Fill in a model's record, run it, and return the record."""
    records = np.zeros(1, _LAYOUT.dtypes[model])
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            assert value.flags.c_contiguous
            value = pointer(value)
        records[name] = value
    calendar = new_calendar(agents)
    getattr(_LIBRARY, model)(pointer(records), pointer(calendar))
    return records[0]
