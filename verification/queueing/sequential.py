"""Run replications until the answer is precise enough.

A replication is a pure function of its number, so it may run anywhere. The stopping rule looks at
replications in the order of their numbers and at fixed checkpoints, so the result doesn't depend
on the executor, on how many run at once, or on which ends first.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from forecache.sim.statistics import Estimate, mean_interval

MIN_REPLICATIONS = 5
"""Fewer say too little about their own spread to stop on."""

_GROWTH = 1.25
"""Checkpoints grow by this factor. Looking after every replication would stop too often on a
spread that is small by accident, and the intervals would then cover less than they promise."""

ArgumentT = TypeVar("ArgumentT")
ResultT = TypeVar("ResultT")

Outputs = Mapping[str, float]
Simulate = Callable[[int], Outputs]


@dataclass(frozen=True, slots=True)
class ReplicationResult:
    """What the replications said.

    Attributes
    ----------
    estimates : dict of str to Estimate
        Mean and Student t interval of every output.
    samples : dict of str to ndarray
        The value of every output in replication 0, 1, ...
    replications : int
        How many were used.
    precise : bool
        Whether every named output reached its precision; if not, the maximum was reached first.
    """

    estimates: dict[str, Estimate]
    samples: dict[str, np.ndarray]
    replications: int
    precise: bool


def run_replications(
    simulate: Simulate,
    *,
    precision: Mapping[str, float],
    confidence: float = 0.95,
    minimum: int = MIN_REPLICATIONS,
    maximum: int = 100,
    executor: Executor | None = None,
    in_flight: int = 4,
    progress: Callable[[int], None] | None = None,
) -> ReplicationResult:
    """Run replications until the named outputs are precise enough, or a maximum is reached.

    Parameters
    ----------
    simulate : callable
        Takes the number of a replication, returns its outputs by name. For an executor of
        processes it must be picklable.
    precision : mapping of str to float
        For each output that decides: the relative half width to reach, 0.02 for 2%. Empty: run
        the minimum.
    confidence : float
        Of the intervals.
    minimum, maximum : int
        Bounds of the number of replications; the minimum is at least 5.
    executor : concurrent.futures.Executor, optional
        Where to run; in this thread if left out.
    in_flight : int
        How many replications may be submitted and not yet done.
    progress : callable, optional
        Called with the number of replications in hand whenever it grows.

    Returns
    -------
    ReplicationResult

    Raises
    ------
    ValueError
        If the bounds make no sense or a named output doesn't exist.
    """
    if not MIN_REPLICATIONS <= minimum <= maximum:
        raise ValueError(
            f"replications go from at least {MIN_REPLICATIONS} to a maximum, "
            f"not from {minimum} to {maximum}"
        )
    if in_flight < 1:
        raise ValueError(f"at least one replication must be in flight, not {in_flight}")
    outputs: list[Outputs] = []
    checkpoint = minimum
    results = in_order(simulate, range(maximum), executor=executor, in_flight=in_flight)
    precise = False
    for output in results:
        outputs.append(output)
        if progress is not None:
            progress(len(outputs))
        if len(outputs) < checkpoint:
            continue
        precise = _is_precise(outputs, precision, confidence)
        if precise or len(outputs) == maximum:
            break
        checkpoint = min(maximum, math.ceil(len(outputs) * _GROWTH))
    # Replications beyond the stopping point aren't needed.
    results.close()
    samples = {
        name: np.array([output[name] for output in outputs], dtype=float) for name in outputs[0]
    }
    estimates = {name: mean_interval(values, confidence) for name, values in samples.items()}
    return ReplicationResult(estimates, samples, len(outputs), precise)


def _is_precise(outputs: list[Outputs], precision: Mapping[str, float], confidence: float) -> bool:
    for name, relative_half_width in precision.items():
        if name not in outputs[0]:
            known = ", ".join(sorted(outputs[0]))
            raise ValueError(f"there is no output {name}; there are {known}")
        estimate = mean_interval([output[name] for output in outputs], confidence)
        if not estimate.relative_half_width <= relative_half_width:
            return False
    return True


def in_order(
    function: Callable[[ArgumentT], ResultT],
    arguments: Iterable[ArgumentT],
    *,
    executor: Executor | None = None,
    in_flight: int | None = None,
) -> Generator[ResultT, None, None]:
    """Call a function once for each argument; yield its results in the order of the arguments.

    Calls that were not begun when the iterator is closed, or when one raises, are cancelled.

    Parameters
    ----------
    function
        For an executor of processes it, its arguments and its results must be picklable.
    executor
        Where to call; here, one at a time as results are asked for, if left out.
    in_flight
        How many calls may be submitted and not yet yielded, at least 1; all of them if left out.
    """
    if executor is None:
        yield from map(function, arguments)
        return
    waiting: deque[Future[ResultT]] = deque()
    try:
        for argument in arguments:
            waiting.append(executor.submit(function, argument))
            if len(waiting) == in_flight:
                result = waiting[0].result()
                waiting.popleft()
                yield result
        while waiting:
            result = waiting[0].result()
            waiting.popleft()
            yield result
    finally:
        for future in waiting:
            future.cancel()
