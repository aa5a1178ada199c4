"""Which machines with which engine may be chosen, and what they cost.

An offer is a machine, an engine and a number of replicas; how many shards it takes, and with how
many threads, is what the search finds out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from forecache.hwprofiles import list_instances, load_host
from forecache.hwprofiles.files import did_you_mean
from forecache.hwprofiles.schema import HostProfile
from forecache.sim.errors import InputError

from ..advice.cases import MEMCACHED_TOOL
from ..cost.beside import BillLine, NotPriced
from ..engines.generator import load_generator
from ..engines.profile import EngineProfile, load_engine
from ..prediction.system import System
from ..prices.table import PriceTable
from ..scenario.schema import GeneratorSettings
from .bill.price import MANAGED, cheapest, price_table
from .own_times import TodaysCorrections
from .schema import Choices, PlanScenario, TodaysPlan

THREADS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Numbers of threads that are compared with `io_threads: automatic`, as cores allow."""


@dataclass(frozen=True)
class Offer:
    """A machine with an engine on it, and how many replicas a shard has.

    Attributes
    ----------
    name, family
        Of the instance, or of a service's node type: cache.r7g.large, cache.r7g.
    system
        Host, engine and load generator, as simulations take them.
    replicas
        Of each shard.
    payment, usd_per_month, price_note
        How it is paid, what one node costs, and whose price that is.
    threads
        The numbers of threads that may be run, in order.
    support, beside, not_priced
        What one node costs more for an old version; what a plan costs beside its nodes, however
        many; and what belongs to its bill without a known price (`bill.py`).
    """

    name: str
    family: str
    system: System
    replicas: int
    payment: str
    usd_per_month: float
    price_note: str
    threads: tuple[int, ...]
    support: BillLine | None = None
    beside: tuple[BillLine, ...] = ()
    not_priced: tuple[NotPriced, ...] = ()

    @property
    def engine(self) -> EngineProfile:
        """Its engine."""
        return self.system.engine

    @property
    def host(self) -> HostProfile:
        """Its host."""
        return self.system.host

    @property
    def engine_words(self) -> str:
        """Name and version of its engine."""
        return f"{self.engine.engine} {self.engine.version}"

    @property
    def managed(self) -> bool:
        """Whether a service runs it."""
        return self.name.startswith(MANAGED)

    @property
    def words(self) -> str:
        """For a sentence: `r7g.large with valkey 9.1`."""
        return f"{self.name} with {self.engine_words}"

    def nodes_usd(self, shards: int) -> float:
        """What the nodes of so many shards cost a month: what all offers have a price of."""
        each = self.usd_per_month + (0.0 if self.support is None else self.support.usd)
        return shards * (1 + self.replicas) * each

    def bill_usd(self, shards: int) -> float | None:
        """The whole bill of a month; None where some of it has no known price."""
        if self.not_priced:
            return None
        return self.nodes_usd(shards) + sum(line.usd for line in self.beside)


@dataclass(frozen=True)
class Refused:
    """What may be chosen but can't be offered, and why."""

    what: str
    why: str


Check = Callable[[PlanScenario, Offer], object]
"""Raises an `InputError` where an offer can't be simulated with what is demanded."""


def offers_of(
    scenario: PlanScenario, check: Check, corrections: TodaysCorrections | None = None
) -> tuple[list[Offer], list[Refused]]:
    """Everything that may be chosen, and what of it can't be offered.

    Parameters
    ----------
    check
        What an offer has to pass.
    corrections
        What today's nodes told of themselves.

    Raises
    ------
    InputError
        A name is not known, or nothing at all can be offered.
    """
    choices = scenario.choices
    names = _names(choices)
    engines = _engines(choices)
    offers: list[Offer] = []
    refused: list[Refused] = []
    systems: dict[tuple[str, str, str], System] = {}
    matched: set[str] = set()
    for name in names:
        for engine in engines:
            if name.startswith(MANAGED) != is_service(engine):
                continue
            matched |= {name, engine.id}
            key = name, engine.id, engine.version
            if key not in systems:
                systems[key] = _system(name, engine, corrections)
            for replicas in dict.fromkeys(choices.replicas):
                found = _offer(scenario, name, systems[key], replicas, check)
                if isinstance(found, Offer):
                    offers.append(found)
                elif found not in refused:
                    refused.append(found)
    _check_matched(names, engines, matched)
    if not offers:
        words = "; ".join(f"{each.what}: {each.why}" for each in refused[:3])
        raise InputError(f"field choices: found nothing that can be had ({words}).")
    return offers, refused


def is_service(engine: EngineProfile) -> bool:
    """Whether an engine is only sold as a service."""
    return engine.engine.startswith("elasticache-")


def todays_offer(
    scenario: PlanScenario,
    today: TodaysPlan,
    check: Check,
    corrections: TodaysCorrections | None = None,
) -> Offer:
    """The machine, engine and price of what runs now.

    Raises
    ------
    InputError
        Something of it is not known.
    """
    known = _known_names(price_table(scenario.choices))
    if today.instance not in known:
        hint = did_you_mean(today.instance, known)
        raise InputError(f"field today.instance: found {today.instance!r}; {hint}")
    try:
        engine = load_engine(today.engine, today.engine_version)
    except InputError as error:
        raise InputError(f"field today: {error}") from None
    if is_service(engine) != today.instance.startswith(MANAGED):
        raise InputError(
            f"field today.instance: found {today.instance!r} with {engine.engine}; valid is a node "
            f"type ({MANAGED}...) with an engine of ElastiCache, and an instance with others."
        )
    own = {} if today.usd_per_month is None else {today.instance: today.usd_per_month}
    choices = scenario.choices.model_copy(
        update={"usd_per_month": {**scenario.choices.usd_per_month, **own}}
    )
    found = _offer(
        scenario.model_copy(update={"choices": choices}),
        today.instance,
        _system(today.instance, engine, corrections),
        today.replicas,
        check,
    )
    if isinstance(found, Refused):
        raise InputError(f"field today: {found.what}: {found.why}.")
    return replace(found, threads=(today.io_threads,))


def _names(choices: Choices) -> list[str]:
    """The instances that are meant, in the order of the catalogue within each pattern."""
    known = _known_names(price_table(choices))
    found: list[str] = []
    for place, pattern in enumerate(choices.instances):
        meant = _matching(pattern, known)
        if not meant:
            patterns = {f"{name.rpartition('.')[0]}.*" for name in known if "." in name}
            hint = did_you_mean(pattern, [*sorted(patterns), *known])
            raise InputError(f"field choices.instances.{place}: found {pattern!r}; {hint}")
        found += [name for name in meant if name not in found]
    unknown = [name for name in choices.usd_per_month if name not in known]
    if unknown:
        hint = did_you_mean(unknown[0], known)
        raise InputError(f"field choices.usd_per_month: found {unknown[0]!r}; {hint}")
    return found


def _matching(pattern: str, known: Iterable[str]) -> list[str]:
    """Names that a pattern means; a service's only if it begins like theirs."""
    letters = "[^.]*".join(re.escape(part) for part in pattern.split("*"))
    whole = re.compile(letters)
    return [name for name in known if whole.fullmatch(name)]


def _known_names(table: PriceTable) -> dict[str, str]:
    """Families of the catalogue's instances, and of node types that run on one of them, by name."""
    found = {instance.name: instance.family for instance in list_instances()}
    priced = table.nodes.types
    types = {MANAGED + name: MANAGED + family for name, family in found.items()}
    return found | {name: family for name, family in types.items() if name in priced}


def _engines(choices: Choices) -> list[EngineProfile]:
    """The engines that are meant, each version once."""
    found: dict[str, EngineProfile] = {}
    for place, choice in enumerate(choices.engines):
        versions: list[str | None] = [*choice.versions] if choice.versions else [None]
        for version in versions:
            try:
                engine = load_engine(choice.engine, version)
            except InputError as error:
                raise InputError(f"field choices.engines.{place}: {error}") from None
            asked = engine if version is None else engine.model_copy(update={"version": version})
            found.setdefault(f"{asked.id} {asked.version}", asked)
    return list(found.values())


def _system(name: str, engine: EngineProfile, corrections: TodaysCorrections | None) -> System:
    tool = MEMCACHED_TOOL if engine.engine == "memcached" else GeneratorSettings().tool
    found = System(load_host(name.removeprefix(MANAGED)), engine, load_generator(tool))
    return found if corrections is None else corrections.of(found)


def _check_matched(
    names: Sequence[str], engines: Sequence[EngineProfile], matched: set[str]
) -> None:
    """Refuse a machine that no engine goes with, and the other way round."""
    for name in names:
        if name not in matched:
            wants = "elasticache-redis" if name.startswith(MANAGED) else "valkey or redis"
            raise InputError(
                f"field choices.instances: found {name!r}, which none of the engines runs on; "
                f"valid is an engine such as {wants} besides."
            )
    for engine in engines:
        if engine.id not in matched:
            wants = f"{MANAGED}r7g.*" if is_service(engine) else "r7g.*"
            raise InputError(
                f"field choices.engines: found {engine.engine!r}, which runs on none of the "
                f"instances; valid is an instance such as {wants} besides."
            )


def _offer(
    scenario: PlanScenario, name: str, system: System, replicas: int, check: Check
) -> Offer | Refused:
    """The machine with its price and threads."""
    what = f"{name} with {system.engine.engine} {system.engine.version}"
    price = cheapest(scenario.choices, name, system)
    if price is None:
        ways = " or ".join(p.replace("_", " ") for p in scenario.choices.payments)
        where = f" in {scenario.choices.region}" if scenario.choices.region else ""
        return Refused(what, f"no price of it is known{where}, {ways}")
    threads = _threads(scenario, system)
    if not threads:
        cores = system.host.speed().cores
        return Refused(what, f"its {cores} cores are fewer than any of the io_threads")
    if system.engine.engine == "memcached" and replicas > 0:
        return Refused(what, "Memcached has no replicas")
    family = _known_names(price_table(scenario.choices))[name]
    offer = Offer(
        name,
        family,
        system,
        replicas,
        price.payment,
        price.usd_per_month,
        price.note,
        threads,
    )
    try:
        check(scenario, offer)
    except InputError as error:
        return Refused(what, str(error).removesuffix("."))
    return offer


def _threads(scenario: PlanScenario, system: System) -> tuple[int, ...]:
    """Numbers of threads that may be run on a machine."""
    asked, engine = scenario.choices.io_threads, system.engine
    most = min(engine.max_io_threads, system.host.speed().cores)
    if scenario.demand.tls is not None and engine.tls == "main_thread":
        most = 1 if asked == "automatic" else most  # its I/O threads have nothing to do then
    counts = THREADS if asked == "automatic" else sorted(set(asked))
    return tuple(count for count in counts if count <= most)
