"""Open loops of every policy, at random: what one run says holds together.

Each scenario is drawn from a seed that its finding prints. A short run of it, as `run` makes them,
is held against itself and against a longer run under other random streams:

- completions are arrivals and the backlog at the window's start less that at its end;
- a backlog that is said to have settled is no larger later on, one that is said to grow is;
- no latency is below the round trip of the network, and quantiles are in order;
- a loop that keeps up completes what arrives, one that is overloaded does not;
- at half as much again no fewer requests complete. Connections carry one request at a time, so the
  server never sees more than that many, whatever is due. The mechanism allows exceptions, where it
  is not asked: where the load generator takes time from the server (on the same cores), under a
  quota that other threads use up by spinning, while threads are started and stopped in turn, and
  with owning threads (Redis 8). Their threads hand whole lists of clients over; the longer the
  lists, the longer each waits for the other, so with hundreds of connections waiting they do less
  than with a hundred, in closed loops as well.

Nor are two runs compared where threads share cores: a spinning I/O thread that keeps the core its
main thread waits for makes a light load metastable. It is served for as long as no I/O thread is
started, and piles up from then on.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from forecache.models.advice.answers import load_cases
from forecache.models.node.simulate import NodeResult
from forecache.models.prediction.run_length import Growth, backlog_growth, grows
from forecache.models.prediction.simulation import run, times_of
from forecache.models.step_times.inputs import NodeInputs
from forecache.sim.errors import InputError

from ..check import Check, Finding

SEED = 20_261_122
SCENARIOS = 200
"""Of each policy."""

ENGINES = {
    "single_thread": ("redis-2.8", "redis-5.0", "redis-7.0", "valkey-8.0", "valkey-9.1"),
    "asynchronous": ("valkey-8.0", "valkey-8.1", "valkey-9.0"),
    "shared_queues": ("valkey-9.1",),
    "fork_join": ("redis-6.2", "redis-7.0", "valkey-7.2"),
    "multiplexed": ("elasticache-redis-7.0", "elasticache-redis-7.1"),
    "owning_threads": ("redis-8.0", "redis-8.2"),
    "locked_threads": ("memcached-1.6",),
}
"""Engines whose threads follow each policy."""

HOSTS = ("graviton3-c7g.4xlarge", "r7g.2xlarge")
REQUESTS = 4000
_TAKING = frozenset({"cores", "cpu_quota_cores", "load_generator"})
"""Fields by which something takes time from the server's threads."""

_CHANCE = 5.0
"""Standard errors that count as chance, given how many scenarios are compared."""

_GRAIN = 0.02
"""Relative difference of throughputs that two windows have because clients move in waves."""


@dataclass(frozen=True)
class Contradiction:
    """What a run says that cannot be, and the scenario that says it."""

    what: str
    scenario: dict[str, Any]
    seed: int


def scenario_of(policy: str, seed: int) -> dict[str, Any]:
    """A random open loop of a policy's engine, from light load to far beyond capacity."""
    random = np.random.default_rng([SEED, seed])

    def one_of(*values: Any) -> Any:
        return values[random.integers(len(values))]

    engine, _, version = one_of(*ENGINES[policy]).rpartition("-")
    clients = round(math.exp(random.uniform(0, math.log(1500))))
    workload: dict[str, Any] = {
        "arrival": "open_loop",
        "clients": clients,
        "value_bytes": one_of(16, 512, 512, 4096),
    }
    rate_rps = round(math.exp(random.uniform(math.log(5e3), math.log(2e6))))
    arriving = one_of("steadily", "steadily", "steadily", "in pieces", "in bursts")
    if arriving == "steadily":
        workload["rate_rps"] = rate_rps
    elif arriving == "in pieces":
        calm = {"duration_s": 2000 / rate_rps, "rate_rps": 0.6 * rate_rps}
        workload["rate_profile"] = [calm, {"duration_s": 500 / rate_rps, "rate_rps": rate_rps}]
    else:
        calm_s, burst_s = 400 / rate_rps, 100 / rate_rps
        rates = {"calm_rps": 0.5 * rate_rps, "burst_rps": rate_rps}
        workload["bursts"] = {**rates, "calm_s": calm_s, "burst_s": burst_s}
    threads = 1 if policy == "single_thread" else int(random.integers(2, 9))
    fields: dict[str, Any] = {"io_threads": threads, "workload": workload}
    if random.random() < 0.15:
        fields["cores"] = int(random.integers(1, 5))
    if random.random() < 0.1:
        fields["cpu_quota_cores"] = one_of(0.5, 1.5, 4.0)
    if random.random() < 0.15:
        fields["load_generator"] = {"same_host": True}
    host = one_of(*HOSTS)
    return {"host": host, "engine": engine, "engine_version": version, **fields}


def contradictions(policy: str, seed: int) -> list[Contradiction]:
    """What the runs of one random scenario say that cannot be."""
    scenario = scenario_of(policy, seed)
    try:
        [(case, system)] = load_cases(scenario)
        inputs = system.inputs(case.scenario)
    except InputError:
        return []  # An engine or a host that does not offer this.
    result = run(inputs, requests=REQUESTS, seed=seed)
    growth = backlog_growth(result)
    found = _in_itself(inputs, result, growth)
    if "cores" not in scenario:
        found += _later(inputs, result, growth, seed)
    if policy != "owning_threads" and not _TAKING & scenario.keys():
        found += _with_more(inputs, result, growth, seed)
    return [Contradiction(what, scenario, seed) for what in found]


def _in_itself(inputs: NodeInputs, result: NodeResult, growth: Growth) -> list[str]:
    flow, counters, found = result.flow, result.counters, []
    assert flow is not None
    accepted = counters["arrivals"] - counters["overflows"]
    if result.completions != accepted + flow.at_start - flow.at_end:
        found.append("completions are not arrivals and what the backlog lost")
    if result.completions:
        quantiles = [result.latency.quantile(q) for q in (1e-9, 0.5, 0.9, 0.99, 0.999)]
        if quantiles != sorted(quantiles):
            found.append(f"quantiles {quantiles} are not in order")
        times = times_of(inputs)
        round_trip_ps = 0 if inputs.scenario.same_host else 2 * times.one_way_ps
        # A histogram knows a latency to a part of its bucket.
        if quantiles[0] < 0.97 * round_trip_ps:
            found.append(f"a latency of {quantiles[0]:g} ps below the round trip {round_trip_ps}")
    keeps_up = result.completions / max(1, counters["arrivals"])
    chance = _CHANCE * growth.error_rps / flow.rate_rps + _GRAIN
    if not grows([growth]) and keeps_up < 1.0 - chance:
        found.append(f"settled, but completes {keeps_up:.1%} of its arrivals")
    if keeps_up > 1.0 + chance:
        found.append(f"completes {keeps_up:.1%} of its arrivals")
    for name, value in (
        ("main thread", result.main_thread_utilisation),
        ("I/O thread", max(result.io_thread_utilisation, default=0.0)),
        ("load generator", result.load_generator_utilisation),
    ):
        if not 0.0 <= value <= 1.0 + 1e-9:
            found.append(f"{name} is busy {value:.3f} of the time")
    return found


def _later(inputs: NodeInputs, result: NodeResult, growth: Growth, seed: int) -> list[str]:
    """Against a run four times as long under other random streams."""
    longer = run(inputs, requests=4 * REQUESTS, seed=seed, replication=7)
    mine, theirs = result.flow, longer.flow
    assert mine is not None and theirs is not None
    again = backlog_growth(longer)
    overloaded = grows([growth])
    difference = abs(growth.rps - again.rps) / math.hypot(growth.error_rps, again.error_rps)
    clear = difference > _CHANCE and abs(growth.rps - again.rps) > _GRAIN * mine.rate_rps
    if overloaded != grows([again]) and clear:
        return [f"the backlog grows by {growth.rps:.0f}/s, in another run by {again.rps:.0f}/s"]
    if overloaded and clear and again.rps < 0.5 * growth.rps:
        return [f"overloaded by {growth.rps:.0f}/s, in a longer run by {again.rps:.0f}/s"]
    return []


def _with_more(inputs: NodeInputs, result: NodeResult, growth: Growth, seed: int) -> list[str]:
    workload = inputs.scenario.workload
    if workload.rate_rps is None or result.counters["activations"] > 0:
        return []
    more = workload.model_copy(update={"rate_rps": 1.5 * workload.rate_rps})
    scenario = inputs.scenario.model_copy(update={"workload": more})
    changed = replace(inputs, scenario=scenario)
    loaded = run(changed, requests=REQUESTS, seed=seed)
    # What completes varies with its arrivals, and by the waves in which clients move.
    errors = math.hypot(
        growth.error_rps,
        backlog_growth(loaded).error_rps,
        math.sqrt(result.completions) / result.window_s,
    )
    least = (1.0 - _GRAIN) * result.throughput_rps - 3.0 * errors
    if loaded.throughput_rps < least:
        return [
            f"{result.throughput_rps:.0f}/s complete of {workload.rate_rps:.0f}, "
            f"{loaded.throughput_rps:.0f}/s of {more.rate_rps:.0f}"
        ]
    return []


def check_policy(policy: str, *, scenarios: int = SCENARIOS) -> list[Contradiction]:
    """All contradictions in a number of random scenarios of a policy."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        each = pool.map(partial(contradictions, policy), range(scenarios))
        return [contradiction for found in each for contradiction in found]


def _findings(scenarios: int) -> list[Finding]:
    findings = []
    for policy in ENGINES:
        found = check_policy(policy, scenarios=scenarios)
        for contradiction in found:
            print(f"  {contradiction}", flush=True)
        subject = f"{policy}: contradictions in {scenarios} open loops, seed {SEED}"
        findings.append(Finding(subject, 0.0, len(found), 0.0, 0.0, not found))
    return findings


def check(scenarios: int = SCENARIOS) -> Check:
    """The check with a number of scenarios of each policy."""
    says = "random open loops of every policy do not contradict themselves"
    return Check("open-loops", says, partial(_findings, scenarios))


CHECKS = [check()]
