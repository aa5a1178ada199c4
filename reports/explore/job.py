"""One state of the controls, answered in a process of its own: first quickly, then by simulation.

`work` is what the process runs. It takes one `PageState` and sends messages until it is `Ended` or
has `Failed`; whoever no longer wants to know ends the process.
"""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from forecache import __version__
from forecache.hwprofiles.files import dump_yaml
from forecache.models.advice.answers import load_curve, predict_candidates, thread_candidates
from forecache.models.advice.cases import load_cases
from forecache.models.advice.compare import differences
from forecache.models.advice.objective import KNEE
from forecache.models.advice.paired import PairedQuantity
from forecache.models.advice.quick_estimate import QuickEstimate, interruptions, quick_estimate
from forecache.models.advice.recommend import Candidate
from forecache.models.footprint.limits import Room
from forecache.models.footprint.node import node_room
from forecache.models.prediction.system import System
from forecache.models.prices.table import HourlyPrice, server_price
from forecache.models.results.points import LoadPoint, Point
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.source import ScenarioSource, read_scenario
from forecache.models.scenario.sweeps import Case
from forecache.models.scenario.workload import CONSTANT_RATE
from forecache.sim.errors import ForecacheError
from forecache.sim.processes import workers

from .controls import one_node, values_of, with_changes

QUICK_LOADS = (0.05, 0.2, 0.4, 0.55, 0.7, 0.8, 0.87, 0.93)
"""Shares of the quick capacity at which latency against load is estimated."""

FIRST_LOOK_S = 0.08
"""After this long the first estimates are sent, whether all thread counts have one or not."""

NAMES = ("A", "B")


@dataclass(frozen=True)
class PageState:
    """What the page asks: one scenario or two.

    Attributes
    ----------
    scenarios
        Contents of scenario files.
    changes
        Of each: controls that have been moved since, by name.
    known
        Keys of results that the asking side has.
    """

    scenarios: tuple[Mapping[str, Any], ...]
    changes: tuple[Mapping[str, Any], ...]
    known: frozenset[str]
    seed: int


@dataclass(frozen=True)
class Described:
    """The scenario of a side, and what follows from it without simulation."""

    side: int
    yaml: str
    values: dict[str, Any]
    """What the controls show."""
    title: str
    threads: int
    """The setting that is looked at."""
    interruptions: list[str]
    """Why it has no quick estimates; empty where it has."""
    objective_ms: float | None
    """Bound on p99."""
    room: Room
    price: HourlyPrice | None


@dataclass(frozen=True)
class Estimated:
    """Quick estimates of a side."""

    side: int
    by_threads: list[QuickEstimate]
    by_load: list[tuple[float, QuickEstimate]]


@dataclass(frozen=True)
class SimulatedThreads:
    """One number of threads, simulated; `point` is None where the asking side has it."""

    side: int
    key: str
    threads: int
    point: Point | None


@dataclass(frozen=True)
class SimulatedLoads:
    """Latency against load, simulated; likewise."""

    side: int
    key: str
    points: list[LoadPoint] | None


@dataclass(frozen=True)
class Compared:
    """The second side over the first, under the same draws; likewise."""

    key: str
    differences: list[PairedQuantity] | None


@dataclass(frozen=True)
class SimulationsDone:
    """How many of the simulations are there."""

    done: int
    of: int


@dataclass(frozen=True)
class Failed:
    """Why there is no answer, in one sentence."""

    reason: str
    input_error: bool


@dataclass(frozen=True)
class Ended:
    """Nothing follows."""


Message = (
    Described
    | Estimated
    | SimulatedThreads
    | SimulatedLoads
    | Compared
    | SimulationsDone
    | Failed
    | Ended
)


@dataclass(frozen=True)
class _Side:
    number: int
    case: Case[Scenario]
    system: System
    settings: list[tuple[Case[Scenario], System]]
    """All thread counts, that of `case` first and then by distance from it."""


def work(connection: Connection) -> None:
    """Wait for a question, answer it, end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked ends this process
    try:
        question = connection.recv()
        for message in answered(question):
            connection.send(message)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def answered(question: PageState) -> Iterator[Message]:
    """Everything there is to say, ending with `Ended` or `Failed`."""
    try:
        yield from _answers(question)
        yield Ended()
    except ForecacheError as error:
        yield Failed(str(error), input_error=error.exit_code == 2)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        yield Failed(f"This is a bug in forecache {__version__} ({what}).", input_error=False)


def start_of(source: ScenarioSource) -> dict[str, Any]:
    """The scenario to begin with: of a sweep over io_threads the quick estimates' knee."""
    given = read_scenario(source)
    scenario, _ = one_node(given.data, file=given.name)
    systems = load_cases(given)
    if len(systems) > 1:
        quick = [quick_estimate(case.scenario, system) for case, system in systems]
        best_rps = max(each.throughput_rps for each in quick)
        near = [e.io_threads for e in quick if e.throughput_rps >= KNEE * best_rps]
        scenario["io_threads"] = min(near)
    return scenario


def _answers(question: PageState) -> Iterator[Message]:
    sides = []
    for number, data in enumerate(question.scenarios):
        side, described = _side(number, with_changes(data, question.changes[number]))
        sides.append(side)
        yield described
    yield from _known(question, sides)
    yield from _estimates(question, [s for s in sides if not interruptions(s.case.scenario)])
    with workers() as executor:
        yield from _simulations(question, sides, executor)


def _side(number: int, data: Mapping[str, Any]) -> tuple[_Side, Described]:
    scenario, _ = one_node(data, file=f"scenario {NAMES[number]}")
    [(case, system)] = load_cases(scenario)
    chosen = case.scenario.io_threads
    settings = thread_candidates(case, system)
    settings.sort(key=lambda each: abs(each[0].scenario.io_threads - chosen))
    engine = f"{system.engine.engine} {system.engine.version}"
    described = Described(
        side=number,
        yaml=dump_yaml(scenario),
        values=values_of(case.scenario, engine=engine),
        title=f"{system.engine.id} on {system.host.title}",
        threads=chosen,
        interruptions=interruptions(case.scenario),
        objective_ms=case.scenario.slo.p99_ms if case.scenario.slo else None,
        room=node_room(case.scenario, system.engine, system.host),
        price=server_price(system.host, system.engine.engine),
    )
    return _Side(number, case, system, settings), described


def _key(kind: str, seed: int, *sides: tuple[Case[Scenario], System]) -> str:
    """What a result is known by: everything that it depends on."""
    parts = [kind, str(seed)]
    for case, system in sides:
        parts += [case.scenario.model_dump_json(), system.host.id, system.engine.id]
        parts.append(system.generator.id)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _thread_key(question: PageState, case: Case[Scenario], system: System) -> str:
    return _key("threads", question.seed, (case, system))


def _load_key(question: PageState, side: _Side) -> str:
    return _key("loads", question.seed, side.settings[0])


def _pair_key(question: PageState, sides: list[_Side]) -> str:
    return _key("pair", question.seed, *(side.settings[0] for side in sides))


def _known(question: PageState, sides: list[_Side]) -> Iterator[Message]:
    """What the asking side has, so that it may show it."""
    for side in sides:
        for case, system in side.settings:
            key = _thread_key(question, case, system)
            if key in question.known:
                yield SimulatedThreads(side.number, key, case.scenario.io_threads, None)
        if (key := _load_key(question, side)) in question.known:
            yield SimulatedLoads(side.number, key, None)
    if len(sides) > 1 and (key := _pair_key(question, sides)) in question.known:
        yield Compared(key, None)


def _estimates(question: PageState, sides: list[_Side]) -> Iterator[Message]:
    """Quick estimates of what is not known: thread counts of all sides in turn, then loads.

    A scenario with `interruptions` has none: it waits for simulations.
    """
    began = time.perf_counter()
    waiting: list[list[QuickEstimate]] = [[] for _ in question.scenarios]
    first: dict[int, QuickEstimate] = {}
    looked = False
    for place in range(max((len(side.settings) for side in sides), default=0)):
        for side in sides:
            if place >= len(side.settings):
                continue
            case, system = side.settings[place]
            if place > 0 and _thread_key(question, case, system) in question.known:
                continue
            estimate = quick_estimate(case.scenario, system)
            first.setdefault(side.number, estimate)
            waiting[side.number].append(estimate)
        if not looked and time.perf_counter() - began > FIRST_LOOK_S:
            looked = True
            yield from _sent(waiting)
    yield from _sent(waiting)
    for side in sides:
        if _load_key(question, side) not in question.known:
            yield Estimated(side.number, [], _quick_loads(side, first[side.number]))


def _sent(waiting: list[list[QuickEstimate]]) -> Iterator[Message]:
    for number, estimates in enumerate(waiting):
        if estimates:
            yield Estimated(number, list(estimates), [])
            estimates.clear()


def _quick_loads(side: _Side, quick: QuickEstimate) -> list[tuple[float, QuickEstimate]]:
    """Estimates at shares of what the setting serves clients that never pause."""
    scenario = side.case.scenario
    workload = scenario.workload
    capacity_rps = quick.throughput_rps
    single = {"pipeline": 1, "think_us": 0.0} | CONSTANT_RATE
    if workload.arrival == "open_loop" or workload.pipeline > 1 or workload.think_us > 0:
        closed = {"arrival": "closed_loop", "rate_rps": None} | single
        capacity_rps = quick_estimate(_with(scenario, closed), side.system).throughput_rps
    found = []
    for share in QUICK_LOADS:
        rate_rps = share * capacity_rps
        loaded = {"arrival": "open_loop", "rate_rps": rate_rps} | single
        found.append((rate_rps, quick_estimate(_with(scenario, loaded), side.system)))
    return found


def _with(scenario: Scenario, changes: dict[str, Any]) -> Scenario:
    workload = scenario.workload.model_copy(update=changes)
    return scenario.model_copy(update={"workload": workload})


def _simulations(question: PageState, sides: list[_Side], executor: Executor) -> Iterator[Message]:
    """What is not known, simulated: the settings that are looked at, other threads, loads."""
    total = sum(len(side.settings) + 1 for side in sides)
    served_rps: dict[int, float] = {}
    for message, served in _looked_at(question, sides, executor):
        if isinstance(message, SimulatedThreads):
            served_rps[message.side] = served
        yield message
    done = len(sides)
    yield SimulationsDone(done, total)
    for place in range(1, max(len(side.settings) for side in sides)):
        for side in (side for side in sides if place < len(side.settings)):
            case, system = side.settings[place]
            key = _thread_key(question, case, system)
            if key not in question.known:
                [found] = predict_candidates(
                    [(case, system)], seed=question.seed, progress=None, executor=executor
                )
                yield SimulatedThreads(side.number, key, case.scenario.io_threads, found.point)
            done += 1
            yield SimulationsDone(done, total)
    for side in sides:
        if (key := _load_key(question, side)) not in question.known:
            scenario = side.settings[0][0].scenario
            points = load_curve(side.system, scenario, served_rps[side.number], seed=question.seed)
            yield SimulatedLoads(side.number, key, points)
        done += 1
        yield SimulationsDone(done, total)


def _looked_at(
    question: PageState, sides: list[_Side], executor: Executor
) -> Iterator[tuple[Message, float]]:
    """The setting of each side, with what it serves, and the difference of two."""
    pair = _pair_key(question, sides) if len(sides) > 1 else None
    needed = [
        side
        for side in sides
        if _thread_key(question, *side.settings[0]) not in question.known
        or (pair is not None and pair not in question.known)
        or _load_key(question, side) not in question.known
    ]
    found: list[Candidate] = []
    if needed:
        found = predict_candidates(
            [side.settings[0] for side in needed],
            seed=question.seed,
            progress=None,
            executor=executor,
        )
    for side, candidate in zip(needed, found, strict=True):
        key = _thread_key(question, *side.settings[0])
        point, threads = candidate.point, candidate.io_threads
        yield SimulatedThreads(side.number, key, threads, point), point.throughput_rps.value
    if pair is not None and pair not in question.known:
        yield Compared(pair, differences(*found)), 0.0
