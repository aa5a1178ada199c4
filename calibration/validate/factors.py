"""How fast the machine behind published measurements really was: a handful of fitted factors.

A dataset's calibration points may move what its source leaves open (the CPU time of system calls,
the speed of an unnamed host, the transfer of a line between cores), each with a prior that says how
far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from forecache.models.engines.profile import EngineWork
from forecache.models.prediction.run_length import Window, window
from forecache.models.prediction.simulation import pilot_run, run, times_of
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.step_times.inputs import NodeInputs
from forecache.sim.executors import Submitted

from .dataset import MeasuredCase

MODEL_ERROR = 0.05
"""Relative standard error of the model where an engine's profile says none. A factor that was
fitted more closely than the model is right would only hide its error in the wrong place."""

FIT_REQUESTS = 12_000


@dataclass(frozen=True)
class Factor:
    """A number that calibration points may move: how, and how far beforehand.

    Attributes
    ----------
    prior_error
        Standard error of its logarithm.
    apply
        Changes inputs by the factor.
    of_host
        It says something of the host alone, so that it holds for every engine there.
    """

    name: str
    note: str
    prior_error: float
    apply: Callable[[NodeInputs, float], NodeInputs]
    of_host: bool = False


def _scaled_kernel(inputs: NodeInputs, factor: float) -> NodeInputs:
    return replace(inputs, work=_scaled(inputs.work, ("kernel_scale",), factor))


def _scaled_wake(inputs: NodeInputs, factor: float) -> NodeInputs:
    return replace(inputs, work=_scaled(inputs.work, ("wake_scale",), factor))


def _scaled_user(inputs: NodeInputs, factor: float) -> NodeInputs:
    names = (
        *("loop_instructions", "read_instructions", "write_instructions"),
        *("parse_instructions", "get_instructions", "set_instructions"),
    )
    return replace(inputs, work=_scaled(inputs.work, names, factor))


def _scaled_ipc(inputs: NodeInputs, factor: float) -> NodeInputs:
    """A host that takes longer by the factor for the same instructions of the server."""
    speed = inputs.speed
    return replace(inputs, speed=replace(speed, user_ipc=speed.user_ipc / factor))


def _scaled_set(inputs: NodeInputs, factor: float) -> NodeInputs:
    names = ("value_instructions", "value_touches", "parse_instructions_per_byte")
    return replace(inputs, work=_scaled(inputs.work, names, factor))


def _scaled_transfer(inputs: NodeInputs, factor: float) -> NodeInputs:
    speed = inputs.speed
    faster = replace(speed, core_to_core_ns=speed.core_to_core_ns * factor)
    return replace(inputs, speed=faster)


def _scaled_host(inputs: NodeInputs, factor: float) -> NodeInputs:
    """A host whose every time is longer by the factor."""
    return replace(
        inputs,
        speed=inputs.speed.slower(factor),
        generator_speed=inputs.generator_speed.slower(factor),
    )


def _scaled(work: EngineWork, names: Sequence[str], factor: float) -> EngineWork:
    return replace(work, **{name: getattr(work, name) * factor for name in names})


KERNEL = Factor(
    "kernel", "CPU time of system calls, engine's and host's range together", 0.35, _scaled_kernel
)
WAKE = Factor("wake", "CPU time of falling asleep and of waking a sleeper", 0.5, _scaled_wake)
USER = Factor("user", "instructions of the engine's user code", 0.25, _scaled_user)
SET = Factor("set", "what a SET takes beyond a GET", 0.7, _scaled_set)
TRANSFER = Factor("transfer", "lines handed from core to core", 0.35, _scaled_transfer)
HOST = Factor("host", "speed of a host the source does not name", 0.25, _scaled_host)
"""Its prior: the catalogue's hosts differ from the reference by 0.25 in the logarithm (root mean
square of their times)."""

HOST_KERNEL = Factor(
    "host kernel",
    "CPU time of system calls on the host, for every engine",
    0.2,
    _scaled_kernel,
    True,
)
HOST_WAKE = replace(WAKE, name="host wake", of_host=True)
HOST_USER = Factor(
    "host user", "time for the same instructions on the host", 0.18, _scaled_ipc, True
)
"""Their priors: the ranges of tcp_recv_ns, tcp_send_ns and user_ipc on the catalogue's hosts."""

WORK_DRAWS = 64
"""Draws of an engine's work that say how much a point tells of its host: the standard deviation
over them is known to 9%. With 8 it was known to 27%, and predictions changed by 2% by seed."""


def may_be_fitted(case: MeasuredCase) -> bool:
    """Whether factors may be fitted to a point: by its role, and by what was measured."""
    measured = not math.isnan(case.observed.get("throughput_rps", math.nan))
    return case.role == "calibration" and measured


def factors_for(
    cases: Sequence[MeasuredCase], *, host_known: bool, several_engines: bool = False
) -> list[Factor]:
    """What a dataset's calibration points may move: never more factors than such points allow.

    Without such a point nothing is moved. The speed of an unknown host is a factor all the same: it
    keeps the range of its prior.

    Parameters
    ----------
    host_known
        Whether the predictions are made with the profile of the host that was measured.
    several_engines
        The points are of engines with work of their own. What those of one say of the host then
        holds for the others, what they say of its work does not.
    """
    calibration = [case for case in cases if may_be_fitted(case)]
    factors = [] if host_known else [HOST]
    if not calibration:
        return factors
    factors += [HOST_KERNEL, HOST_WAKE, HOST_USER] if several_engines else [KERNEL, WAKE, USER]
    if any(case.scenario.io_threads > 1 for case in calibration):
        factors.append(TRANSFER)
    commands = {case.scenario.workload.get_fraction for case in calibration}
    if len(commands) > 1 and not several_engines:
        factors.append(SET)
    return factors


@dataclass(frozen=True)
class FactorPosterior:
    """Logarithms of the factors: mean and covariance, and the points (by index) they rest on."""

    factors: list[Factor]
    mean: np.ndarray
    covariance: np.ndarray
    points: tuple[int, ...] = ()

    @property
    def of_host(self) -> bool:
        """Whether the factors stand for the host alone, and the engines' work is open."""
        return any(factor.of_host for factor in self.factors)

    def draw(self, random: np.random.Generator) -> np.ndarray:
        """(factors,) logarithms drawn from what is known; none where there is no factor."""
        if not self.factors:
            return np.zeros(0)
        return random.multivariate_normal(self.mean, self.covariance, method="eigh")

    def apply(self, inputs: NodeInputs, logs: np.ndarray) -> NodeInputs:
        """Inputs with the factors whose logarithms are given."""
        for factor, log in zip(self.factors, logs, strict=True):
            inputs = factor.apply(inputs, math.exp(float(log)))
        return inputs


def fit_posterior(
    factors: list[Factor], cases: Sequence[tuple[MeasuredCase, System]], *, seed: int
) -> FactorPosterior:
    """Fit the factors to the throughput of calibration points, the simulation in the loop.

    All evaluations share their random streams, so that the simulated throughput is a smooth
    function of the factors.

    Raises
    ------
    ValueError
        One of the points may only be predicted.
    """
    held_out = [case.index for case, _ in cases if case.role != "calibration"]
    if held_out:
        raise ValueError(f"points with role calibration only, not {held_out}")
    prior = np.array([factor.prior_error for factor in factors])
    start = FactorPosterior(factors, np.zeros(len(factors)), np.diag(prior**2))
    if not factors or not cases:
        return start
    observed = np.log([case.observed["throughput_rps"] for case, _ in cases])
    errors = np.array(
        [
            math.hypot(case.noise.standard_error, system.engine.discrepancy or MODEL_ERROR)
            for case, system in cases
        ]
    )
    base = [system.inputs(case.scenario) for case, system in cases]
    windows = [
        window(inputs, pilot_run(inputs, times_of(inputs), seed=seed), requests=FIT_REQUESTS)
        for inputs in base
    ]
    if start.of_host:
        # How well a point tells the host depends on how well its engine's work is known.
        spreads = [
            _work_spread(system, case.scenario, window_ps, seed=seed)
            for (case, system), window_ps in zip(cases, windows, strict=True)
        ]
        errors = np.hypot(errors, spreads)

    with ThreadPoolExecutor() as pool, Submitted(pool) as calls:

        def predicted(logs: np.ndarray) -> np.ndarray:
            def one(number: int) -> float:
                inputs = start.apply(base[number], logs)
                result = run(inputs, requests=FIT_REQUESTS, seed=seed, window_ps=windows[number])
                return math.log(max(result.throughput_rps, 1.0))

            simulated = [calls.submit(one, number) for number in range(len(base))]
            return np.array([each.result() for each in simulated])

        def residuals(shifted: np.ndarray) -> np.ndarray:
            logs = shifted - 1.0
            return np.concatenate([(predicted(logs) - observed) / errors, logs / prior])

        # The step of the derivatives is relative to the variable, hence the shift. Clients move in
        # waves, so a window's count has a grain of up to 2%; the step lies well above it.
        solution = least_squares(
            residuals,
            np.ones(len(factors)),
            diff_step=0.1,
            x_scale=prior,
            max_nfev=25,
            bounds=(-0.8, 2.8),
        )
    covariance = np.linalg.inv(solution.jac.T @ solution.jac)
    used = tuple(case.index for case, _ in cases)
    return FactorPosterior(factors, solution.x - 1.0, covariance, used)


def _work_spread(system: System, scenario: Scenario, window_ps: Window, *, seed: int) -> float:
    """Standard error of the logarithm of throughput from the ranges of the engine's work."""
    nominal = system.inputs(scenario)
    logs = []
    for draw in range(WORK_DRAWS):
        work = system.inputs(scenario, draw=draw, seed=seed).work
        drawn = replace(nominal, work=work)
        result = run(drawn, requests=FIT_REQUESTS, seed=seed, window_ps=window_ps)
        logs.append(math.log(max(result.throughput_rps, 1.0)))
    return float(np.std(logs, ddof=1))
