"""Which number of I/O threads to run, what it costs to be off by some, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forecache.sim.words import chance

from ..engines.profile import EngineProfile
from ..footprint.node import node_room
from ..prediction.predict import CLIENTS, Prediction
from ..scenario.arrivals import Arrivals
from ..scenario.schema import Scenario
from ..scenario.workload import UniformSizes, Workload, Zipf
from ..step_times.forking import do_reads
from .objective import asked_of, excess, meets
from .server_price import ServerPrice, server_price

KNEE = 0.95
"""The knee is the first setting that reaches this share of the best throughput. Among settings that
meet the SLO with the probability asked for it is the one recommended: every further thread costs a
core for less than the model can tell apart. In an open loop all of them serve what is offered, and
it is the one with the fewest threads."""

BENCHMARK_REQUESTS = 20_000_000
BENCHMARK_SECONDS = 60

_NO_WORK = 0.005
"""Share of a core below which I/O threads count as stopped."""


@dataclass(frozen=True)
class Choice:
    """Which setting is recommended among which, or comes closest to an objective none meets.

    Attributes
    ----------
    predictions, points
        In step, by io_threads: a point is the plain dictionary of a prediction.
    chosen, knee
        Index of that setting and of the curve's knee.
    candidates
        Indices of what could be recommended: inside the model, keeping up, meeting the SLO with the
        probability asked for.
    met
        Whether a setting meets the SLO, or none was asked for: only then one is recommended.
    """

    predictions: list[Prediction]
    points: list[dict[str, Any]]
    chosen: int
    knee: int
    candidates: list[int]
    met: bool

    @property
    def others(self) -> list[Prediction]:
        """The predictions that could have been recommended instead."""
        return [self.predictions[i] for i in self.candidates if i != self.chosen]


def choose(predictions: Sequence[Prediction], points: Sequence[dict[str, Any]]) -> Choice:
    """Choose among predicted settings that differ in io_threads."""
    order = sorted(range(len(points)), key=lambda i: predictions[i].case.scenario.io_threads)
    predictions = [predictions[i] for i in order]
    points = [points[i] for i in order]
    everything = list(range(len(points)))
    inside = [i for i in everything if not _ignored(points[i])] or everything
    # A setting that requests pile up at meets nothing, whatever its throughput.
    steady = [i for i in inside if points[i]["verdict"] != "OVERLOADED"]
    sure = [i for i in steady or inside if _sure_enough(predictions[i], points[i])]
    candidates = sure or steady or inside
    throughput = [prediction.mean("throughput_rps") for prediction in predictions]
    best = max(throughput[i] for i in candidates)
    knee = next(i for i in inside if throughput[i] >= KNEE * max(throughput[j] for j in inside))
    if sure:
        chosen = next(i for i in candidates if throughput[i] >= KNEE * best)
    else:
        # Where none has a chance to speak of, the smallest excess says more than the probability;
        # of those that are all overloaded, the one whose backlog grows slowest.
        chosen = max(
            candidates,
            key=lambda i: (
                round(points[i]["objective_probability"], 2),
                -excess(predictions[i]),
                throughput[i],
            ),
        )
    return Choice(predictions, points, chosen, knee, candidates, bool(sure))


def _sure_enough(prediction: Prediction, point: dict[str, Any]) -> bool:
    """Whether a setting meets the SLO with the probability asked for; so it does without one."""
    slo = prediction.case.scenario.slo
    return slo is None or bool(point["objective_probability"] >= slo.probability)


def recommendation_of(choice: Choice) -> dict[str, Any]:
    """What is to be said of the recommended setting.

    Returns
    -------
    dict
        setting (None where none meets the SLO), closest (then which comes closest to it, and what
        is said is of that one; else None), shortfall (that the data do not fit, or None: no setting
        is recommended then), knee, throughput_rps, regret (one entry per other
        candidate), bottleneck, network_limits, next_bottleneck, conf, conf_file, benchmark_command,
        no_benchmark_command (why there is none, or empty), slo (what was asked, `reached`, its
        `probability` and the one `asked_probability`, `met`), limit_rps, headroom_rps,
        cost_usd_per_million_requests, cost_note (whose price it is).
    """
    predictions, points, chosen = choice.predictions, choice.points, choice.chosen
    prediction, point = predictions[chosen], points[chosen]
    scenario, system = prediction.case.scenario, prediction.system
    price = server_price(system)
    shortfall = node_room(scenario, system.engine, system.host).shortfall
    recommended = choice.met and shortfall is None
    return {
        "setting": {"io_threads": scenario.io_threads} if recommended else None,
        "closest": None if recommended else {"io_threads": scenario.io_threads},
        "shortfall": shortfall,
        "knee": {"io_threads": predictions[choice.knee].case.scenario.io_threads},
        "throughput_rps": prediction.estimate("throughput_rps"),
        "regret": [
            _regret(predictions, points, chosen, i) for i in range(len(points)) if i != chosen
        ],
        "bottleneck": point["bottleneck"],
        "network_limits": prediction.network_limits,
        "next_bottleneck": point["next_bottleneck"],
        "conf": _configuration(prediction),
        "conf_file": _configuration_file(prediction),
        "benchmark_command": benchmark_command(scenario, prediction.system.engine),
        "no_benchmark_command": no_benchmark_command(scenario),
        "slo": _slo(prediction, point, choice.met),
        "limit_rps": point["limit_rps"],
        "headroom_rps": point["headroom_rps"],
        "cost_usd_per_million_requests": _cost(prediction, price),
        "cost_note": price.note if price is not None else "",
    }


def _ignored(point: dict[str, Any]) -> str:
    """The warning that the engine runs fewer threads than a point has, or nothing."""
    return next((warning for warning in point["warnings"] if "are ignored" in warning), "")


def _slo(prediction: Prediction, point: dict[str, Any], met: bool) -> dict[str, Any] | None:
    slo = prediction.case.scenario.slo
    if slo is None:
        return None
    asked = asked_of(prediction)
    return {
        **asked,
        "met": met,
        "probability": point["objective_probability"],
        "asked_probability": slo.probability,
        "asked": ", ".join(f"{name[:-3]} at most {limit:g} ms" for name, limit in asked.items()),
        "reached": reached_by(prediction),
    }


def reached_by(prediction: Prediction) -> str:
    """The latencies that an SLO bounds, in words."""
    if prediction.overloaded:
        return "a backlog that grows"
    return ", ".join(f"{n[:-3]} {prediction.mean(n):.3g} ms" for n in asked_of(prediction))


def ratio_margin(mine: Prediction, theirs: Prediction) -> float:
    """Relative half width of the 95% interval of a ratio of throughputs, under the same draws."""
    ratios = theirs.log_draws("throughput_rps") - mine.log_draws("throughput_rps")
    return 1.96 * float(np.std(ratios, ddof=1)) if len(ratios) > 1 else 0.0


def _regret(
    predictions: Sequence[Prediction], points: Sequence[dict[str, Any]], chosen: int, other: int
) -> dict[str, Any]:
    """What is lost by another setting, from differences under the same draws."""
    mine, theirs = predictions[chosen], predictions[other]
    loss = 1.0 - theirs.mean("throughput_rps") / mine.mean("throughput_rps")
    spread = ratio_margin(mine, theirs)
    log_ratio = math.log(max(1e-9, 1.0 - loss))
    return {
        "io_threads": theirs.case.scenario.io_threads,
        "throughput_loss": loss,
        "low": 1.0 - math.exp(log_ratio + spread),
        "high": 1.0 - math.exp(log_ratio - spread),
        "why_not": _why_not(mine, theirs, points[chosen], points[other], loss),
    }


def _why_not(
    mine: Prediction,
    theirs: Prediction,
    mine_point: dict[str, Any],
    point: dict[str, Any],
    loss: float,
) -> str:
    fewer = theirs.case.scenario.io_threads < mine.case.scenario.io_threads
    threads = abs(theirs.case.scenario.io_threads - mine.case.scenario.io_threads)
    if _ignored(point) and not _ignored(mine_point):
        return _ignored(point)
    if point["verdict"] == "OVERLOADED":
        return "can't keep up with the offered load"
    if _sure_enough(mine, mine_point) and not _sure_enough(theirs, point):
        sure = chance(point["objective_probability"])
        if not meets(theirs):
            return f"misses the slo: {reached_by(theirs)}"
        return f"meets the slo with a probability of only {sure}: {reached_by(theirs)}"
    policy = theirs.system.engine.threading
    seldom = policy.replies_per_thread * theirs.case.scenario.io_threads
    if theirs.case.scenario.io_threads > 1 and seldom and point["active_threads"] == 1:
        return (
            f"fewer than {seldom} replies usually wait at once, so the engine stops all its I/O "
            "threads"
        )
    if fewer:
        limit = point["bottleneck"]
        if policy.threads_alike and theirs.case.scenario.io_threads == 1:
            return "one worker thread does all the work"
        if limit == "main thread" and theirs.case.scenario.io_threads == 1:
            return "the main thread still does the socket work itself"
        if limit == "none":
            return "reaches less, although no station is saturated"
        if limit == CLIENTS:
            return "reaches less: with this many clients every request takes longer"
        if limit.endswith("s"):
            return f"{limit} are the bottleneck"
        return f"the {limit} is the bottleneck"
    if point["active_threads"] <= mine_point["active_threads"]:
        more = sum(point["io_thread_utilisation"]) - sum(mine_point["io_thread_utilisation"])
        if more < _NO_WORK:
            return "the engine leaves the extra threads stopped"
        return (
            f"the engine keeps the extra threads stopped most of the time: they use only "
            f"{more:.0%} of a core"
        )
    if loss > 0.01 and point["bottleneck"] == "cores" != mine_point["bottleneck"]:
        return "more threads than cores, so threads wait for a core"
    if loss > 0.01 and policy.locks_items:
        return "loses throughput: threads wait for each other's locks"
    if loss > 0.01:
        return f"loses throughput: {threads} more thread{'s' * (threads > 1)} to hand work to"
    if point["core_utilisation"] > 0:
        return "more threads than cores, for no significant gain"
    return f"{threads} more core{'s' * (threads > 1)} busy for no significant gain"


def _cost(prediction: Prediction, price: ServerPrice | None) -> float | None:
    throughput = prediction.mean("throughput_rps")
    if price is None or throughput <= 0:
        return None
    return price.usd_per_hour / 3600 / throughput * 1e6


def _configuration_file(prediction: Prediction) -> str:
    """The file that holds the settings, or a name for settings that users cannot change."""
    engine = prediction.system.engine
    own = "valkey.conf" if engine.engine == "valkey" else "redis.conf"
    return engine.threading.configuration_file or own


def _configuration(prediction: Prediction) -> str:
    scenario, engine = prediction.case.scenario, prediction.system.engine
    policy = engine.threading
    return policy.configuration.format(
        io_threads=scenario.io_threads,
        settings="".join(f"{line}\n" for line in _settings(scenario, engine)),
        tls=policy.tls_configuration if scenario.tls is not None else "",
    )


def _settings(scenario: Scenario, engine: EngineProfile) -> list[str]:
    """Lines of a configuration file for settings that differ from the engine's own."""
    lines = []
    if scenario.io_threads > 1 and "events_per_io_thread" in engine.threading.settings:
        if engine.version.startswith("8.0"):
            lines.append("io-threads-do-reads yes")
        events = scenario.events_per_io_thread
        if events is not None and events != engine.events_per_io_thread:
            lines.append(f"events-per-io-thread {events}")
    if do_reads(scenario, engine) and scenario.io_threads > 1:
        lines.append("io-threads-do-reads yes")
    batch = scenario.prefetch_batch
    if engine.prefetch_batch > 0 and batch is not None and batch != engine.prefetch_batch:
        lines.append(f"prefetch-batch-max-size {batch}")
    return lines


def benchmark_command(scenario: Scenario, engine: EngineProfile | None = None) -> str:
    """Commands that measure what was predicted: one to fill the server, one to drive it.

    They are to be run where the load generator is. What a tool can't do (think time, hot sets,
    Poisson arrivals: its own rate limit is used) is left to the reader. For commands beyond GET
    and SET, or a rate that changes, there is no such line.

    Parameters
    ----------
    engine
        Who is to be driven; one of the Redis family if left out.
    """
    memcached = engine is not None and engine.engine == "memcached"
    workload = scenario.workload
    if no_benchmark_command(scenario):
        return ""
    threads = scenario.generator_threads
    plain = isinstance(workload.value_bytes, int) and workload.popularity == "uniform"
    plain = plain and not memcached and not scenario.load_generator.tool.startswith("memtier")
    if plain and workload.get_fraction in (0.0, 1.0) and workload.rate_rps is None:
        where = "-s SOCKET" if scenario.transport == "unix_socket" else "-h HOST -p 6379"
        where += " --tls --insecure" if scenario.tls is not None else ""
        load = (
            f"valkey-benchmark {where} --threads {threads} -c {workload.clients} "
            f"-P {workload.pipeline} -d {workload.value_bytes} -r {workload.keys}"
        )
        drive = f"{load} -n {BENCHMARK_REQUESTS} -t "
        if workload.get_fraction == 0.0:
            return drive + "set"
        # Random keys: three times as many SETs as keys leave one in twenty unset.
        return f"{load} -n {3 * workload.keys} -t set -q\n{drive}get"
    per_thread = max(1, round(workload.clients / threads))
    where = (
        "-S SOCKET"
        if scenario.transport == "unix_socket"
        else f"-s HOST -p {11211 if memcached else 6379}"
    )
    where += " --protocol=memcache_text" if memcached else ""
    where += " --tls --tls-skip-verify" if scenario.tls is not None else ""
    common = (
        f"memtier_benchmark {where} -t {threads} -c {per_thread} {_memtier_sizes(workload)} "
        f"--key-prefix=key: --key-minimum=1 --key-maximum={workload.keys} --hide-histogram"
    )
    pattern = "R:R"
    if isinstance(workload.popularity, Zipf):
        pattern = f"Z:Z --key-zipf-exp={workload.popularity.zipf:g}"
    sets = round((1 - workload.get_fraction) * 100)
    divisor = math.gcd(sets, 100 - sets)
    drive = (
        f"{common} --pipeline {workload.pipeline} "
        f"--ratio {sets // divisor}:{(100 - sets) // divisor} --key-pattern={pattern} "
        f"--test-time={BENCHMARK_SECONDS}"
    )
    if workload.rate_rps is not None:
        each = round(workload.rate_rps / (threads * per_thread))
        drive += f" --rate-limiting={max(1, each)}"
    if workload.get_fraction == 0.0:
        return drive
    fill = f"{common} --pipeline 16 --ratio 1:0 --key-pattern=P:P --requests=allkeys"
    return f"{fill}\n{drive}"


def no_benchmark_command(scenario: Scenario) -> str:
    """Why there is no command that measures what was predicted; empty where there is one."""
    workload = scenario.workload
    if workload.varying != Arrivals():
        return "No benchmark tool can send requests at a rate that changes like this one."
    others = [name.upper() for name in workload.commands if name not in ("get", "set")]
    if others:
        return (
            f"No benchmark command for {', '.join(others)}: the built-in loads of benchmark tools "
            "are GET and SET. memtier_benchmark sends others with --command, on data that you have "
            "to load first."
        )
    return ""


def _memtier_sizes(workload: Workload) -> str:
    value = workload.value_bytes
    if isinstance(value, int):
        return f"-d {max(1, value)}"
    if isinstance(value, UniformSizes):
        return f"--data-size-range={max(1, value.low)}-{max(1, value.high)}"
    smallest = min(value.weights)
    listed = zip(value.values, value.weights, strict=True)
    return "--data-size-list=" + ",".join(
        f"{max(1, size)}:{round(weight / smallest)}" for size, weight in listed
    )
