"""A dataset of loads of one node: what its calibration points fit, and what is predicted of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from forecache.hwprofiles import load_host
from forecache.hwprofiles.completion import learned_points
from forecache.hwprofiles.schema import HostProfile
from forecache.models.breakdown.explain import steps_of
from forecache.models.engines.generator import GeneratorProfile, load_generator
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.prediction.predict import (
    LATENCIES,
    QUANTILE_BELOW,
    SERVER_CPU,
    Metrics,
    Prediction,
    Progress,
)
from forecache.models.prediction.run_length import (
    AskedRuns,
    Batch,
    Window,
    check_count,
    check_runs,
    window,
)
from forecache.models.prediction.simulation import pilot_run, run, times_of
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case
from forecache.models.step_times.inputs import NodeInputs
from forecache.sim.errors import InputError
from forecache.sim.executors import Submitted
from forecache.sim.statistics import Estimate, student_t

from .comparison import ComparedPoint, ServerWork
from .dataset import Dataset, MeasuredCase, load_dataset

# --- how fast the machine behind published measurements really was --------------------------------

# How fast the machine behind published measurements really was: a handful of fitted factors.
#
# A dataset's calibration points may move what its source leaves open (the CPU time of system calls,
# the speed of an unnamed host, the transfer of a line between cores), each with a prior that says
# how far.


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


def _scaled_work(names: Sequence[str], inputs: NodeInputs, factor: float) -> NodeInputs:
    """Inputs with some of the engine's work larger by the factor."""
    more = {name: getattr(inputs.work, name) * factor for name in names}
    return replace(inputs, work=replace(inputs.work, **more))


def _scaled_ipc(inputs: NodeInputs, factor: float) -> NodeInputs:
    """A host that takes longer by the factor for the same instructions of the server."""
    speed = inputs.speed
    return replace(inputs, speed=replace(speed, user_ipc=speed.user_ipc / factor))


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


_scaled_kernel = partial(_scaled_work, ("kernel_scale",))
_scaled_wake = partial(_scaled_work, ("wake_scale",))
_scaled_user = partial(
    _scaled_work,
    (
        *("loop_instructions", "read_instructions", "write_instructions"),
        *("parse_instructions", "get_instructions", "set_instructions"),
    ),
)
_scaled_set = partial(
    _scaled_work, ("value_instructions", "value_touches", "parse_instructions_per_byte")
)

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


# --- what is fitted and predicted -----------------------------------------------------------------


REFERENCE_HOST = "graviton3"
"""Stands in for a host the source does not name; its speed is then free."""

REQUESTS = 40_000
DRAWS = 24
_REPLICATIONS = 3

_IPC_STEP = 0.01
"""By which a core retires more a cycle to see which part of a step is the engine's own code."""

_FIT_STEPS = 6
"""Steps of a fit, each with a simulation for every factor: what it takes most often."""


@dataclass(frozen=True)
class NodeDataset:
    """A dataset with the systems that its points were measured on, and what may be fitted.

    Attributes
    ----------
    cases, systems
        Of its points, in order.
    beside
        Points of other datasets of the same machine, by the id of the dataset.
    own, others
        Points that the factors are fitted to: of this dataset, of those beside it.
    factors
        What they may move.
    host_known
        Whether the predictions are made with the profile of the host that was measured.
    """

    dataset: Dataset
    cases: list[MeasuredCase]
    systems: list[System]
    beside: Mapping[str, list[MeasuredCase]]
    own: list[tuple[MeasuredCase, System]]
    others: list[tuple[MeasuredCase, System]]
    factors: list[Factor]
    host_known: bool
    learned: bool = False
    """Whether the hosts of the catalogue have learned from these points, so that nothing is left
    to fit."""

    @property
    def paired(self) -> list[tuple[MeasuredCase, System]]:
        """Each point with its system."""
        return list(zip(self.cases, self.systems, strict=True))

    @property
    def fitted_points(self) -> int:
        """How many points the factors are fitted to."""
        return len(self.own) + len(self.others)

    def fit(self, *, seed: int) -> FactorPosterior:
        """The factors, fitted; the points it names are those of this dataset."""
        posterior = fit_posterior(self.factors, [*self.own, *self.others], seed=seed)
        return replace(posterior, points=tuple(case.index for case, _ in self.own))


def read_node_dataset(
    path: str | Path,
    *,
    host: str | Path | None = None,
    engine: str | Path | None = None,
    unopened: bool = False,
) -> NodeDataset:
    """Read a dataset, and those that it names as of the same machine.

    Parameters
    ----------
    host, engine
        Name or file of a profile that takes the place of the dataset's own.
    unopened
        As in `load_dataset`: measurements may be missing.
    """
    dataset, cases = load_dataset(path, unopened=unopened)
    systems = [system_of(case.scenario, host=host, engine=engine, path=path) for case in cases]
    beside = {name: load_dataset(name)[1] for name in dataset.same_machine}
    known = [case for others in beside.values() for case in others]
    paired_known = [
        (case, system_of(case.scenario, host=host, engine=engine, path=path)) for case in known
    ]
    engines = {system.engine.id for system in systems}
    host_known = host is not None or dataset.scenario.get("host") is not None
    own = _calibration(list(zip(cases, systems, strict=True)))
    others = _calibration(paired_known)
    factors = factors_for([*cases, *known], host_known=host_known, several_engines=len(engines) > 1)
    own_ids = {dataset.id, *beside}
    learned = all(own_ids & set(learned_points(system.host)) for system in systems)
    if learned:
        # What these points say of the host and its engines is in their numbers already.
        factors, own, others = [], [], []
    return NodeDataset(dataset, cases, systems, beside, own, others, factors, host_known, learned)


def predict_points(
    measured: NodeDataset,
    posterior: FactorPosterior,
    *,
    seed: int,
    progress: Progress | None = None,
) -> list[ComparedPoint]:
    """Predict all points, with intervals; they are the `points` of `validate`."""
    points = []
    with ThreadPoolExecutor() as pool, Submitted(pool) as calls:
        futures = [
            calls.submit(_predict, case, system, posterior, seed)
            for case, system in measured.paired
        ]
        for number, future in enumerate(futures, start=1):
            points.append(future.result())
            if progress is not None:
                progress(f"predicted {number} of {len(futures)} points")
    return points


def nominal_runs(inputs: NodeInputs, *, seed: int, replications: int) -> list[Metrics]:
    """Runs at the given numbers, each with random streams of its own."""
    times = times_of(inputs)
    pilot = pilot_run(inputs, times, seed=seed)
    window_ps = window(inputs, pilot, requests=REQUESTS)
    return [
        Metrics.of(
            run(
                inputs,
                requests=REQUESTS,
                seed=seed,
                replication=number,
                times=times,
                window_ps=window_ps,
            )
        )
        for number in range(replications)
    ]


def server_work(system: System, inputs: NodeInputs, nominal: Sequence[Metrics]) -> ServerWork:
    """What the server spends on a request, from runs at the numbers of `inputs`.

    Instructions of the engine's own code follow from how much its steps are shorter on a core that
    retires 1% more a cycle.
    """
    cpu_us = sum(metrics.values[SERVER_CPU] for metrics in nominal) / len(nominal)
    speed = inputs.speed
    faster = replace(inputs, speed=replace(speed, user_ipc=speed.user_ipc * (1.0 + _IPC_STEP)))

    counted = Prediction(Case(given={}, scenario=inputs.scenario), system, list(nominal), [])

    def steps_us(numbers: NodeInputs) -> float:
        return sum(us for _, _, us in steps_of(counted, times=times_of(numbers)))

    per_us = 1e3 * speed.user_ipc * speed.clock_ghz
    saved_us = steps_us(inputs) - steps_us(faster)
    return ServerWork(
        cpu_us=cpu_us,
        cycles=cpu_us * 1e3 * speed.clock_ghz,
        user_instructions=saved_us * per_us * (1.0 + _IPC_STEP) / _IPC_STEP,
    )


def check_work(measured: NodeDataset, seed: int, progress: Progress | None) -> None:
    """Say how long fit and predictions take, or refuse them."""
    points = measured.paired
    fitted = [*measured.own, *measured.others] if measured.factors else []
    evaluations = _FIT_STEPS * (len(measured.factors) + 1)
    runs = [
        *((pair, (Batch(_REPLICATIONS, REQUESTS), Batch(DRAWS, FIT_REQUESTS))) for pair in points),
        *((pair, (Batch(evaluations, FIT_REQUESTS),)) for pair in fitted),
    ]
    check_count(len(points), sum(batch.runs for _, batches in runs for batch in batches))
    asked = []
    for (case, system), each in runs:
        inputs = system.inputs(case.scenario)
        asked.append(AskedRuns(inputs, pilot_run(inputs, times_of(inputs), seed=seed), each))
    check_runs(asked, points=len(points), progress=progress)


def _calibration(pairs: list[tuple[MeasuredCase, System]]) -> list[tuple[MeasuredCase, System]]:
    return [pair for pair in pairs if may_be_fitted(pair[0])]


def system_of(
    scenario: Scenario,
    *,
    host: str | Path | None = None,
    engine: str | Path | None = None,
    path: str | Path,
    fitted: bool = True,
) -> System:
    """What a dataset's scenario names, or `host` and `engine` in its place.

    Parameters
    ----------
    fitted
        Whether a host of the catalogue is as it was fitted to datasets, or as it was known before.
    """
    try:
        profile: HostProfile = load_host(
            str(host or scenario.host or REFERENCE_HOST), fitted=fitted
        )
        rules: EngineProfile = (
            load_engine(str(engine))
            if engine is not None
            else load_engine(scenario.engine, scenario.engine_version)
        )
        tool: GeneratorProfile = load_generator(scenario.load_generator.tool)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return System(profile, rules, tool)


def _predict(
    case: MeasuredCase, system: System, posterior: FactorPosterior, seed: int
) -> ComparedPoint:
    """One point: nominal at the fitted factors, and draws of factors and of all ranges."""
    nominal_inputs = posterior.apply(system.inputs(case.scenario), posterior.mean)
    nominal = nominal_runs(nominal_inputs, seed=seed, replications=_REPLICATIONS)
    drawn = []
    for draw in range(DRAWS):
        random = np.random.default_rng([seed, draw, 7])
        logs = posterior.draw(random)
        # What the factors cover is drawn from their posterior; other ranges keep their priors.
        inputs = _drawn_inputs(system, case.scenario, posterior, seed, draw)
        drawn.append(
            Metrics.of(
                run(
                    posterior.apply(inputs, logs),
                    requests=FIT_REQUESTS,
                    seed=seed,
                    replication=1000 + draw,
                )
            )
        )
    busy = Prediction(Case(given=case.given, scenario=case.scenario), system, nominal, [])
    busiest = max(busy.utilisation, key=busy.utilisation.__getitem__)
    predicted, uncertainty = {}, {}
    # In this order: the ends of a tail's interval are no lower than those of the quantile below.
    for name in dict.fromkeys((*LATENCIES, *case.observed)):
        if name in LATENCIES and busy.overloaded:
            continue  # There is none to compare.
        value = float(np.mean([metrics.values[name] for metrics in nominal]))
        logs = np.log([max(metrics.values[name], 1e-12) for metrics in drawn])
        # Draws differ by their numbers and by chance: what inputs and simulation leave open.
        uncertainty[name] = math.hypot(case.noise.standard_error, float(np.std(logs, ddof=1)))
        t = student_t(0.95, len(drawn) - 1)
        of_model = system.discrepancy(case.scenario)
        half = math.hypot(t * float(np.std(logs, ddof=1)), 1.96 * of_model)
        predicted[name] = Estimate(value, value * math.exp(-half), value * math.exp(half))
        below = QUANTILE_BELOW.get(name)
        if below is not None:
            predicted[name] = busy.with_tail(name, predicted[name], below=predicted.get(below))
    return ComparedPoint(
        index=case.index,
        given=case.given,
        role=case.role,
        observed=case.observed,
        predicted={name: predicted[name] for name in case.observed if name in predicted},
        uncertainty={name: uncertainty[name] for name in case.observed if name in uncertainty},
        server=server_work(system, nominal_inputs, nominal),
        band=band_of(busy.utilisation[busiest]),
        bottleneck=busiest,
    )


def _drawn_inputs(
    system: System, scenario: Scenario, posterior: FactorPosterior, seed: int, draw: int
) -> NodeInputs:
    """A draw of the ranges, without those numbers that the fitted factors stand for."""
    drawn = system.inputs(scenario, draw=draw, seed=seed)
    if set(posterior.factors) <= {HOST}:
        return drawn
    nominal = system.inputs(scenario)
    kept = (
        "push_instructions",
        "pop_instructions",
        "done_instructions",
        "scan_instructions",
        "collect_instructions",
        "read_lines",
        "write_lines",
        "execute_lines",
        "command_lines",
        "done_lines",
        "set_lines",
        "shared_lines",
        "reply_lines_per_line",
        "touch_scale",
        "prefetch_instructions_per_key",
    )
    work = replace(nominal.work, **{name: getattr(drawn.work, name) for name in kept})
    if posterior.of_host:
        work = drawn.work
    unfitted = (
        *("l3_ns", "dram_ns", "parallel_misses", "repeat_ipc_ratio"),
        *("network_one_way_us", "network_packets_per_s", "softirq_ns"),
    )
    speed = replace(nominal.speed, **{name: getattr(drawn.speed, name) for name in unfitted})
    return replace(
        nominal, work=work, speed=speed, generator=drawn.generator, generator_speed=speed
    )


def band_of(utilisation: float) -> str:
    """The band of utilisation an error is reported in."""
    if utilisation < 0.5:
        return "below 50%"
    if utilisation < 0.8:
        return "50 to 80%"
    if utilisation < 0.95:
        return "80 to 95%"
    return "saturated"
