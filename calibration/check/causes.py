"""Why measured and predicted differ: every cause is simulated, and compared again.

A cause changes one thing: the conditions that were found to differ, the speed of the server or of
the load generator, what the network carries, or what other programs take of the server's cores. It
explains as much as the squared differences, in standard errors, become smaller with it. Causes that
fit any throughput at all (each has a number to choose) are told apart by what was measured beside
it: CPU time per request, the load generator's CPU time, bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from forecache.hwprofiles.network import bandwidth_of
from forecache.models.advice.next_measurement import OBSERVABLE
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import SERVER_CPU, Prediction, predict_cases
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import LEAST_QUOTA_MS, Scenario
from forecache.models.scenario.sweeps import Case
from forecache.models.step_times.inputs import NodeInputs
from forecache.sim.effort import duration_words
from forecache.sim.errors import InputError

from .answers import ComparedQuantity, ConditionGap, GapCause
from .measured import Measured

BUSY = 0.9
"""A load generator, network or core used to this share is taken to be at its limit."""

LEAST_EXPLAINED = 0.05
"""Causes that explain less, and that no measured number shows, are not listed."""

OTHER_PROGRAMS = "other programs"
CONDITIONS = "conditions"
NETWORK = "network"
_BUSY_THREADS = (1, 2, 4)
_REPLICATIONS = 2
_LEAST_LACK = 0.97
_LONGEST_PERIOD_MS = 1000.0


@dataclass(frozen=True)
class Suspect:
    """A cause before it is simulated: its case and system, and what there is to say of it."""

    station: str
    what: str
    measured: bool
    next_step: str
    scenario: Scenario
    system: System


@dataclass(frozen=True)
class GapCauses:
    """What was found of the causes: those that may be, with their systems, and those ruled out."""

    causes: list[GapCause]
    suspects: list[Suspect]
    """Of the causes, in the same order."""
    ruled_out: list[str]


class Gap:
    """A point whose measurement and prediction differ, and what is known of it."""

    def __init__(
        self,
        prediction: Prediction,
        measured: Measured,
        rows: Sequence[ComparedQuantity],
        errors: Mapping[str, float],
        *,
        seed: int,
    ) -> None:
        self.prediction, self.measured, self.rows = prediction, measured, rows
        self.errors, self.seed = errors, seed
        self.scenario, self.system = prediction.case.scenario, prediction.system
        self.ruled_out: list[str] = []
        self.by_name = {row.quantity: row for row in rows}

    def explain(self, differs: Sequence[ConditionGap]) -> GapCauses:
        """The causes, the likeliest first."""
        suspects = [
            *self._conditions(differs),
            *self._server(),
            *self._generator(),
            *self._network(),
            *self._credit(),
            *self._other_programs(),
        ]
        found = predict_cases(
            [(Case({}, each.scenario), each.system) for each in suspects],
            seed=self.seed,
            draws=0,
            replications=_REPLICATIONS,
        )
        before = self._misfit(self.prediction)
        pairs = []
        for suspect, prediction in zip(suspects, found, strict=True):
            explains = 0.0 if before <= 0 else 1.0 - self._misfit(prediction) / before
            if explains < LEAST_EXPLAINED and not suspect.measured:
                continue
            cause = GapCause(
                station=suspect.station,
                what=suspect.what,
                evidence="measured" if suspect.measured else "possible",
                explains=max(0.0, explains),
                predicted={name: prediction.mean(name) for name in self.by_name},
                next_step=suspect.next_step,
            )
            pairs.append((cause, suspect))
        pairs = _best_of_each(pairs)
        return GapCauses([c for c, _ in pairs], [s for _, s in pairs], self.ruled_out)

    def _misfit(self, prediction: Prediction) -> float:
        """Sum of squared differences in standard errors."""
        total = 0.0
        for row in self.rows:
            value = prediction.mean(row.quantity)
            if math.isfinite(value) and value > 0:
                total += (math.log(row.measured / value) / self.errors[row.quantity]) ** 2
            else:
                total += 100.0  # a latency without a bound fits nothing
        return total

    def _conditions(self, differs: Sequence[ConditionGap]) -> Iterable[Suspect]:
        """Each condition that differs, and all of them together."""
        groups = [[each] for each in differs]
        if len(differs) > 1:
            groups.append(list(differs))
        for group in groups:
            told = "; ".join(
                f"{name} was {each.measured}, the scenario says {each.scenario}"
                for each in group
                for name in [each.field.rpartition(".")[2].replace("_", " ")]
            )
            try:
                scenario, system = self._under(group)
            except InputError as error:
                self.ruled_out.append(f"{told}: not simulated, because {error}")
                continue
            yield Suspect(
                CONDITIONS,
                f"Another setting was measured: {told}.",
                True,
                "Measure again under the scenario’s conditions, or put the measured ones into it.",
                scenario,
                system,
            )

    def _under(self, group: Sequence[ConditionGap]) -> tuple[Scenario, System]:
        """The scenario and system under measured conditions."""
        data = self.scenario.model_dump(mode="python")
        engine, generator = self.system.engine, self.system.generator
        for each in group:
            if each.field == "engine":
                name, _, version = str(each.measured).partition(" ")
                engine = load_engine(name, ".".join(version.split(".")[:2]))
                data["engine"], data["engine_version"] = engine.engine, engine.version
                continue
            if each.field == "load_generator.tool":
                generator = load_generator(str(each.measured))
            *way, last = each.field.split(".")
            below: Any = data
            for name in way:
                below = below[name]
            below[last] = each.measured
        try:
            scenario = Scenario.model_validate(data)
        except ValueError as error:
            raise InputError(f"the scenario can't have them ({error})") from None
        return scenario, System(self.system.host, engine, generator)

    def _server(self) -> Iterable[Suspect]:
        """The server's CPU time per request, and how busy that leaves its main thread."""
        self._look_at_main_thread()
        row = self.by_name.get(SERVER_CPU)
        rate = self.by_name.get("throughput_rps")
        if row is not None and row.inside:
            self.ruled_out.append(
                f"Not the server’s work: {row.measured:.2f} µs of CPU time a request is inside "
                f"{row.predicted.low:.2f} to {row.predicted.high:.2f}."
            )
            return
        if row is not None:
            factor = row.ratio
            told = (
                f"The server takes {row.measured:.2f} µs of CPU time a request where "
                f"{row.predicted.value:.2f} ({row.predicted.low:.2f}–{row.predicted.high:.2f}) "
                f"are predicted, {abs(factor - 1):.0%} {'more' if factor > 1 else 'less'}."
            )
        elif rate is not None and not rate.inside:
            factor = 1.0 / rate.ratio
            if factor > 1.0:
                # One with time to spare is the limit only once that is used up.
                station = _server_station(self.prediction)
                factor /= max(0.01, self.prediction.utilisation[station])
            told = (
                f"A server that is {abs(factor - 1):.0%} {'slower' if factor > 1 else 'faster'} "
                "than its profile says would; its CPU time was not measured."
            )
        else:
            return
        engine = self.system.engine.engine
        observe = f" and observe {engine} there (`forecache observe`, `calibrate`)"
        step = (
            "Profile the host itself (`forecache profile`)"
            f"{observe if engine in OBSERVABLE else ''}."
            if row is not None
            else "Take INFO before and after (--info-before, --info-after): it has the CPU time."
        )
        system = altered_system(self.system, server_slower=factor)
        yield Suspect(
            _server_station(self.prediction), told, row is not None, step, self.scenario, system
        )

    def _look_at_main_thread(self) -> None:
        """Where INFO says how long it had something to do: whether it can be the limit."""
        rate, active = self.measured.value("throughput_rps"), self.measured.main_active_us
        predicted = self.prediction.utilisation.get("main thread")
        if rate is None or active is None or predicted is None:
            return
        busy = active * rate / 1e6
        if predicted >= BUSY > busy:
            self.ruled_out.append(
                f"Not the main thread’s speed: it had something to do {busy:.0%} of the time, "
                f"where {predicted:.0%} are predicted."
            )

    def _generator(self) -> Iterable[Suspect]:
        """The load generator's CPU time, and whether it was at its limit."""
        rate, known = self.measured.value("throughput_rps"), self.measured.generator_cpu_us
        threads = self.scenario.generator_threads
        cores = min(threads, self.system.sharing(self.scenario).generator_cores or threads)
        row = self.by_name.get("throughput_rps")
        results = [metrics.result for metrics in self.prediction.nominal]
        predicted = float(np.mean([result.generator_cpu_us_per_request for result in results]))
        if known is None or rate is None:
            if row is None or row.inside or row.ratio >= 1.0:
                return
            factor = cores * 1e6 / (row.measured * predicted)
            yield self._slow_generator(
                factor,
                f"A load generator that takes {factor:.1f} times the predicted CPU time would be "
                "at its limit; its CPU time was not measured.",
                measured=False,
            )
            return
        used = known * rate / 1e6
        told = (
            f"{used:.2f} of {cores} core{'s' if cores > 1 else ''}, {known:.2f} µs of CPU time a "
            f"request where {predicted:.2f} are predicted"
        )
        if used < BUSY * cores:
            self.ruled_out.append(f"Not the load generator, which had time to spare: {told}.")
            return
        yield self._slow_generator(
            known / predicted, f"The load generator is at its limit: {told}.", measured=True
        )

    def _slow_generator(self, factor: float, told: str, *, measured: bool) -> Suspect:
        step = (
            "Give the load generator more threads and cores, or a host of its own."
            if measured
            else "Measure the load generator’s CPU time (generator_cpu_us; --run does it)."
        )
        system = altered_system(self.system, generator_slower=max(0.05, factor))
        return Suspect("load generator", told, measured, step, self.scenario, system)

    def _network(self) -> Iterable[Suspect]:
        """The bandwidth in use, against what the network is said to carry."""
        row = self.by_name.get("throughput_rps")
        if self.scenario.same_host:
            self.ruled_out.append("Not the network: the load comes from the server’s own host.")
            return
        if row is None or row.ratio >= 1.0:
            return
        used = self.measured.network_gbit_per_s
        how = "measured" if used is not None else "by the bytes of the scenario’s requests"
        if used is None:
            used = row.measured * self.prediction.wire_bits_per_request / 1e9
        limit = self.measured.network_limit_gbit_per_s
        said = "its measured limit"
        if limit is None:
            limit = self.system.inputs(self.scenario).speed.network_gbit_per_s
            said = "what its host says"
        held = self.measured.network_allowance_exceeded
        told = f"{used:.2f} Gbit/s ({how}) of {limit:.3g} Gbit/s, {said}"
        if held:
            told += f"; {held:,} packets were held back by the instance’s allowance"
        leaf = self.system.host.network.bandwidth_gbit_per_s
        guessed = leaf.low is not None and leaf.high is not None and leaf.high > 2.0 * leaf.low
        known = self.measured.network_limit_gbit_per_s is not None or not guessed
        full = bool(held) or (known and used >= BUSY * limit)
        if not full and known:
            self.ruled_out.append(f"Not the network’s bandwidth: {told}.")
            return
        start = "The network is at its limit" if full else "The network’s limit is not known"
        step = (
            "Use an instance or a path with more bandwidth, or put the limit into the host’s "
            "profile (`network.bandwidth_gbit_per_s`)."
            if full
            else "Measure what the network carries (iperf3, network_limit_gbit_per_s)."
        )
        system = altered_system(self.system, network_gbit_per_s=used)
        yield Suspect(NETWORK, f"{start}: {told}.", full, step, self.scenario, system)

    def _credit(self) -> Iterable[Suspect]:
        """The other bandwidth of an instance that has a burst: its credit, or the lack of it."""
        row = self.by_name.get("throughput_rps")
        network = bandwidth_of(self.system.host.speed())
        baseline, burst = network.baseline_gbit_per_s, network.burst_gbit_per_s
        if row is None or self.scenario.same_host or burst <= baseline:
            return
        used = self.measured.network_gbit_per_s
        if used is None:
            used = row.measured * self.prediction.wire_bits_per_request / 1e9
        if self.scenario.bandwidth == "burst":
            if row.ratio >= 1.0 or used > baseline:
                return
            other, shown = "baseline", used >= BUSY * baseline
            told = f"The instance’s credit was used up: {used:.2f} Gbit/s"
            step = "Measure for longer with `bandwidth: baseline`, or with an instance that rested."
        else:
            if row.ratio <= 1.0 or used < BUSY * baseline:
                return
            other, shown = "burst", used > baseline
            told = f"The instance used its burst: {used:.2f} Gbit/s"
            lasts = duration_words(network.burst_s)
            step = (
                "Put `bandwidth: burst` into the scenario for a short load; one that lasts has the "
                f"baseline after {lasts} or so (assumed)."
            )
        yield Suspect(
            NETWORK,
            f"{told}, where it has {baseline:.3g} always and {burst:.3g} while there is credit.",
            shown,
            step,
            self.scenario.model_copy(update={"bandwidth": other}),
            self.system,
        )

    def _other_programs(self) -> Iterable[Suspect]:
        """Cores that something else takes: a CPU time as predicted, and too little of it."""
        row, cpu = self.by_name.get("throughput_rps"), self.by_name.get(SERVER_CPU)
        slower = any(
            each.measured > each.predicted.high
            for each in self.rows
            if each.quantity.endswith("_ms")
        )
        if row is None or row.ratio >= 1.0 or not (slower or not row.inside):
            return
        used = None if cpu is None else cpu.measured * row.measured / 1e6
        wanted = self.prediction.mean(SERVER_CPU) * self.prediction.mean("throughput_rps") / 1e6
        told = "Another program, or the hypervisor, takes the server’s cores"
        shown = False
        if used is not None and cpu is not None:
            shown = cpu.inside and used < BUSY * wanted
            if not shown and not slower:
                self.ruled_out.append(
                    f"Not other programs on the server’s cores: it got {used:.2f} of the "
                    f"{wanted:.2f} cores that it was predicted to use."
                )
                return
            told += (
                f": the server got {used:.2f} cores where {wanted:.2f} are predicted, for "
                f"{cpu.ratio:.2f} times the predicted CPU time a request"
            )
        step = (
            "Look at who else runs there (top, steal time), leave the server’s core to it "
            "(taskset), and measure again."
        )
        for like, changes in self._neighbours(used, wanted):
            yield Suspect(
                OTHER_PROGRAMS,
                f"{told} (simulated: {like}).",
                shown,
                step,
                self.scenario.model_copy(update=changes),
                self.system,
            )

    def _neighbours(
        self, used: float | None, wanted: float
    ) -> Iterable[tuple[str, dict[str, Any]]]:
        """Others on the server's cores, in words and as fields of a scenario.

        Some never pause; one takes no more than the server lacks, a time slice at a time.
        """
        cores = min(self.scenario.io_threads, self.scenario.cores or self.scenario.io_threads)
        for count in _BUSY_THREADS:
            like = "1 thread that never pauses" if count == 1 else f"{count} that never pause"
            others = self.scenario.other_busy_threads + count
            yield like, {"cores": cores, "other_busy_threads": others}
        if used is not None and used < _LEAST_LACK * wanted:
            slice_ms = self.system.host.speed().time_slice_us / 1000.0
            period_ms = min(_LONGEST_PERIOD_MS, max(1.0, slice_ms / (1.0 - used / wanted)))
            like = f"{slice_ms:.1f} ms taken from it every {period_ms:.0f} ms"
            if used * period_ms >= LEAST_QUOTA_MS:
                yield like, {"cpu_quota_cores": used, "cpu_quota_period_ms": period_ms}


def _best_of_each(pairs: list[tuple[GapCause, Suspect]]) -> list[tuple[GapCause, Suspect]]:
    """By how much each explains, and of other programs the one that explains most.

    What nothing shows counts half: a number that was chosen to fit explains more than it should.
    """

    def weight(pair: tuple[GapCause, Suspect]) -> float:
        return pair[0].explains * (1.0 if pair[0].evidence == "measured" else 0.5)

    ranked = sorted(pairs, key=weight, reverse=True)
    found: list[tuple[GapCause, Suspect]] = []
    for cause, suspect in ranked:
        once = cause.station == OTHER_PROGRAMS
        if not (once and any(kept.station == OTHER_PROGRAMS for kept, _ in found)):
            found.append((cause, suspect))
    return found


def _server_station(prediction: Prediction) -> str:
    """The busiest of the server's own stations."""
    busy = prediction.utilisation
    own = [name for name in busy if "thread" in name]
    return max(own, key=busy.__getitem__)


# --- a system with another speed or network ------------------------------------------------------


@dataclass(frozen=True)
class AlteredSystem(System):
    """A system whose server, load generator or network is another than its profiles say.

    Attributes
    ----------
    server_slower, generator_slower
        Factors on every time of the processor that the server, or the load generator, has.
    network_gbit_per_s
        What the network carries; None leaves what the host says.
    """

    server_slower: float = 1.0
    generator_slower: float = 1.0
    network_gbit_per_s: float | None = None

    def inputs(self, scenario: Scenario, *, draw: int | None = None, seed: int = 1) -> NodeInputs:
        """As of every system, with the changes."""
        found = super().inputs(scenario, draw=draw, seed=seed)
        network: dict[str, Any] = {}
        if self.network_gbit_per_s is not None:
            network = {"network_gbit_per_s": self.network_gbit_per_s}
        return replace(
            found,
            speed=replace(found.speed.slower(self.server_slower), **network),
            generator_speed=replace(found.generator_speed.slower(self.generator_slower), **network),
        )


def altered_system(system: System, **changes: Any) -> AlteredSystem:
    """A system with some of the changes that `AlteredSystem` knows."""
    return AlteredSystem(system.host, system.engine, system.generator, **changes)
