"""What each thread of an engine with I/O threads computes for a request, predicted as observed.

Of threads that sleep, the whole CPU time is observed. Of those that spin, samples leave out waiting
and turns of the event loop, and INFO's active time of a main thread leaves out the turns that found
nothing. A main thread that waits for the others of its turn sleeps otherwise: its turns count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from forecache.models.breakdown.explain import POLL, steps_of
from forecache.models.engines.profile import EngineWork
from forecache.models.node.setup import NodeTimes
from forecache.models.prediction.predict import Prediction
from forecache.models.prediction.simulation import at_rate, times_of
from forecache.models.prediction.system import System

from ..bundle.points import ObservedPoint
from .scenarios import scenario_of

THREAD_WORK = (
    *("push_instructions", "pop_instructions", "done_instructions", "collect_instructions"),
    *("read_lines", "write_lines", "shared_lines", "reply_lines_per_line"),
    *("execute_lines", "command_lines", "set_lines", "done_lines"),
)
"""Work that only engines with I/O threads have."""


@dataclass(frozen=True)
class Computing:
    """CPU time a request without waiting, in us: of the main thread, and of all I/O threads."""

    main_us: float
    io_us: float


def computing_of(
    prediction: Prediction,
    *,
    active: bool = False,
    polls: bool = True,
    times: NodeTimes | None = None,
) -> Computing:
    """What threads compute in a prediction with I/O threads.

    Parameters
    ----------
    active
        The main thread's turns that find something count, as in INFO's active time.
    polls
        What I/O threads poll for the main thread counts.
    times
        Durations that steps are priced with; those of the run if left out.
    """
    result = prediction.nominal[0].result
    steps = steps_of(prediction, times=times)
    main_us = sum(us for _, thread, us in steps if thread == "main")
    io_us = sum(us for step, thread, us in steps if thread != "main" and (polls or step != POLL))
    policy = prediction.system.engine.threading
    if not (policy.threads_sleep or (active and policy.hand_over != "turns")):
        return Computing(main_us, io_us)
    # Threads' own clocks have turns that the steps leave out.
    each_us = result.window_s * 1e6 / max(1, result.completions)
    priced = steps if times is None else steps_of(prediction)
    main_us += result.main_thread_utilisation * each_us
    main_us -= sum(us for _, thread, us in priced if thread == "main")
    if policy.threads_sleep:
        io_us += sum(result.io_thread_utilisation) * each_us
        io_us -= sum(us for _, thread, us in priced if thread != "main")
    return Computing(main_us, io_us)


def turns_of_jobs_us(prediction: Prediction) -> float:
    """What a turn of the main thread's loop for every job takes a request, in us.

    0 where threads sleep, where all clients of a turn are handed out together, and where threads
    have cores of their own.
    """
    policy, scenario = prediction.system.engine.threading, prediction.case.scenario
    shared = prediction.system.shares_cores(scenario)
    if policy.threads_sleep or policy.hand_over == "turns" or not shared:
        return 0.0
    result = prediction.nominal[0].result
    inline = result.counters["inline_reads"] + result.counters["inline_writes"]
    jobs = result.counters["reads"] + result.counters["writes"] - inline
    inputs = prediction.system.inputs(scenario)
    return jobs / max(1, result.completions) * times_of(inputs).loop_ps / 1e6


def uncounted_turns_us(point: ObservedPoint, prediction: Prediction) -> float:
    """What turns of a sleeping main thread that were counted and not simulated take a request, us.

    Below zero where fewer were counted; 0 where an engine counts none, or its threads spin.
    """
    counted = point.median("event_loops_per_request")
    if not prediction.system.engine.threading.threads_sleep or not counted > 0.0:
        return 0.0
    result = prediction.nominal[0].result
    simulated = result.counters["loops"] / max(1, result.completions)
    times = times_of(prediction.system.inputs(prediction.case.scenario))
    slept = min(1.0, point.median("main_voluntary_switches_per_request") / counted)
    turn_ps = times.loop_ps + times.poll_ps + slept * (times.doze_ps + times.block_ps)
    return (counted - simulated) * turn_ps / 1e6


def reports_activity(point: ObservedPoint) -> bool:
    """Whether INFO says how long the main thread of a point was active."""
    return any(r.main_thread_active_time_ns_per_request is not None for r in point.repetitions)


def leaves_polls_out(point: ObservedPoint) -> bool:
    """Whether what I/O threads of a point compute is without their polls for the main thread."""
    return all(r.io_threads_polling_shares is not None for r in point.repetitions)


def conditions_of(point: ObservedPoint, *, cores: int) -> dict[str, Any]:
    """What a scenario of a point has besides: threads that share cores, the main thread its own."""
    helpers = point.given.io_threads - 1
    if helpers == 0 or helpers + 1 + point.given.generator_threads <= cores:
        return {}
    return {"cores": cores, "main_thread_pinned": True}


def computing_by_work(
    prediction: Prediction, *, names: Sequence[str] = THREAD_WORK, active: bool, polls: bool
) -> tuple[Computing, np.ndarray]:
    """What threads compute, and by how much more if one kind of work were twice as much.

    Returns
    -------
    Computing
        At the numbers of the prediction.
    ndarray, shape (2, names)
        Of the main thread and of the I/O threads, in us.
    """
    # More work would be served at another rate.
    inputs = at_rate(prediction.system.inputs(prediction.case.scenario))
    nominal = times_of(inputs)
    base = computing_of(prediction, active=active, polls=polls, times=nominal)
    more = []
    for name in names:
        work: EngineWork = replace(inputs.work, **{name: 2.0 * getattr(inputs.work, name)})
        doubled = computing_of(
            prediction, active=active, polls=polls, times=times_of(replace(inputs, work=work))
        )
        more.append((doubled.main_us - base.main_us, doubled.io_us - base.io_us))
    return base, np.array(more).T


def case_scenario(point: ObservedPoint, system: System, *, cores: int) -> Any:
    """The scenario of a threaded point."""
    engine = system.engine
    scenario = scenario_of(point.given, engine=engine.engine, engine_version=engine.version)
    return scenario.model_copy(update=conditions_of(point, cores=cores))
