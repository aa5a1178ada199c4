"""Which machines with which engine may be chosen, and what they cost.

How many shards an offer takes, and with how many threads, is what the search finds out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from forecache.hwprofiles import list_instances, load_host
from forecache.hwprofiles.files import did_you_mean
from forecache.hwprofiles.instances import Instance, priced_in
from forecache.sim.errors import InputError

from ..advice.cases import MEMCACHED_TOOL
from ..engines.generator import load_generator
from ..engines.profile import EngineProfile, load_engine
from ..prediction.system import System
from ..prices.table import (
    HOURS_A_MONTH,
    PAYMENTS,
    Payment,
    PriceTable,
    ZonePrice,
    node_usd_per_month,
    provider_zone_price,
    served_engine,
    server_price,
)
from ..scenario.schema import GeneratorSettings
from .own_times import OwnTimeCorrections
from .results import NotOffered, TermPrice
from .schema import Choices, PlanScenario, TodaysPlan
from .shard import MANAGED, Offer, check_offer

THREADS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Numbers of threads that are compared with `io_threads: automatic`, as cores allow."""


def find_offers(
    scenario: PlanScenario, corrections: OwnTimeCorrections | None = None
) -> tuple[list[Offer], list[NotOffered]]:
    """Everything that may be chosen, and what of it can't be offered.

    Parameters
    ----------
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
    refused: list[NotOffered] = []
    systems: dict[tuple[str, str, str], System] = {}
    matched: set[str] = set()
    for name in names:
        for engine in engines:
            if name.startswith(MANAGED) != sold_as_service(engine):
                continue
            matched |= {name, engine.id}
            key = name, engine.id, engine.version
            if key not in systems:
                systems[key] = _system(name, engine, choices.region, corrections)
            for replicas in dict.fromkeys(choices.replicas):
                found = _offer(scenario, name, systems[key], replicas)
                if isinstance(found, Offer):
                    offers.append(found)
                elif found not in refused:
                    refused.append(found)
    _check_matched(names, engines, matched)
    if not offers:
        words = "; ".join(f"{each.what}: {each.why}" for each in refused[:3])
        raise InputError(f"field choices: found nothing that can be had ({words}).")
    return offers, refused


def sold_as_service(engine: EngineProfile) -> bool:
    """Whether an engine is only sold as a service."""
    return engine.engine.startswith("elasticache-")


def current_offer(
    scenario: PlanScenario,
    today: TodaysPlan,
    corrections: OwnTimeCorrections | None = None,
) -> Offer:
    """The machine, engine and price of what runs now."""
    known = _known_names(scenario.choices.price_table)
    if today.instance not in known:
        hint = did_you_mean(today.instance, known)
        raise InputError(f"field today.instance: found {today.instance!r}; {hint}")
    try:
        engine = load_engine(today.engine, today.engine_version)
    except InputError as error:
        raise InputError(f"field today: {error}") from None
    if sold_as_service(engine) != today.instance.startswith(MANAGED):
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
        _system(today.instance, engine, scenario.choices.region, corrections),
        today.replicas,
    )
    if isinstance(found, NotOffered):
        raise InputError(f"field today: {found.what}: {found.why}.")
    return replace(found, threads=(today.io_threads,))


def _names(choices: Choices) -> list[str]:
    """Names that match the patterns, in the order of the catalogue within each pattern."""
    known = _known_names(choices.price_table)
    found: list[str] = []
    for place, pattern in enumerate(choices.instances):
        # A star means no dot: names of a service's types are meant only by patterns that say so.
        letters = "[^.]*".join(re.escape(part) for part in pattern.split("*"))
        meant = [name for name in known if re.fullmatch(letters, name)]
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


def _known_names(table: PriceTable) -> dict[str, str]:
    """Families of the catalogue's instances, and of node types that run on one of them, by name."""
    found = {instance.name: instance.family for instance in list_instances()}
    priced = table.nodes.types
    types = {MANAGED + name: MANAGED + family for name, family in found.items()}
    return found | {name: family for name, family in types.items() if name in priced}


def _engines(choices: Choices) -> list[EngineProfile]:
    """The engines of the choices, each version once."""
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


def _system(
    name: str, engine: EngineProfile, region: str | None, corrections: OwnTimeCorrections | None
) -> System:
    """What runs on an instance, with the instance's price in that region where it is known."""
    tool = MEMCACHED_TOOL if engine.engine == "memcached" else GeneratorSettings().tool
    machine = _priced_there(name, region)
    host = load_host(name.removeprefix(MANAGED), region=None if machine is None else region)
    found = System(host, engine, load_generator(tool))
    return found if corrections is None else corrections.of(found)


def _check_matched(
    names: Sequence[str], engines: Sequence[EngineProfile], matched: set[str]
) -> None:
    """Refuse a machine that none of the engines runs on, and an engine without a machine."""
    for name in names:
        if name not in matched:
            wants = "elasticache-redis" if name.startswith(MANAGED) else "valkey or redis"
            raise InputError(
                f"field choices.instances: found {name!r}, which none of the engines runs on; "
                f"valid is an engine such as {wants} besides."
            )
    for engine in engines:
        if engine.id not in matched:
            wants = f"{MANAGED}r7g.*" if sold_as_service(engine) else "r7g.*"
            raise InputError(
                f"field choices.engines: found {engine.engine!r}, which runs on none of the "
                f"instances; valid is an instance such as {wants} besides."
            )


def _offer(scenario: PlanScenario, name: str, system: System, replicas: int) -> Offer | NotOffered:
    """The machine with its price and threads, or why it can't be had."""
    what = f"{name} with {system.engine.engine} {system.engine.version}"
    price = cheapest(scenario.choices, name, system)
    if price.usd_per_month is None:
        ways = " or ".join(p.replace("_", " ") for p in scenario.choices.payments)
        where = f" in {scenario.choices.region}" if scenario.choices.region else ""
        why = f"no price of it is known{where}, {ways}; choices.usd_per_month may give one"
        return NotOffered(what, why)
    threads = _threads(scenario, system)
    if not threads:
        cores = system.host.speed().cores
        return NotOffered(what, f"its {cores} cores are fewer than any of the io_threads")
    if system.engine.engine == "memcached" and replicas > 0:
        return NotOffered(what, "Memcached has no replicas")
    family = _known_names(scenario.choices.price_table)[name]
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
        check_offer(scenario, offer)
    except InputError as error:
        return NotOffered(what, str(error).removesuffix("."))
    return offer


def _threads(scenario: PlanScenario, system: System) -> tuple[int, ...]:
    """Numbers of threads that may be run on a machine."""
    asked, engine = scenario.choices.io_threads, system.engine
    most = min(engine.max_io_threads, system.host.speed().cores)
    if scenario.demand.tls is not None and engine.tls == "main_thread":
        most = 1 if asked == "automatic" else most  # its I/O threads have nothing to do then
    counts = THREADS if asked == "automatic" else sorted(set(asked))
    return tuple(count for count in counts if count <= most)


def cheapest(choices: Choices, name: str, system: System) -> TermPrice:
    """The cheapest way to pay for a node of those that are allowed."""
    if name in choices.usd_per_month:
        return TermPrice("as given", choices.usd_per_month[name], "the scenario's own price")
    prices = [_price(choices, name, system, payment) for payment in choices.payments]
    return min(prices, key=lambda p: math.inf if p.usd_per_month is None else p.usd_per_month)


def term_prices(choices: Choices, name: str, system: System) -> list[TermPrice]:
    """Every way to pay for a node, with None where no price is known."""
    return [_price(choices, name, system, payment) for payment in PAYMENTS]


def _price(choices: Choices, name: str, system: System, payment: Payment) -> TermPrice:
    """A node paid in one way."""
    table, managed = choices.price_table, name.startswith(MANAGED)
    unknown = TermPrice(payment.replace("_", " "), None, "no price of it is known")
    if managed and payment == "spot":
        return unknown  # a service sells none
    discount = choices.discounts.get(payment)
    usd: float | None = None
    region: str | None = None
    note = ""
    if managed:
        asked: Payment = "on_demand" if discount is not None else payment
        usd = node_usd_per_month(table, name, served_engine(system.engine.engine), asked)
        region = table.region
        note = f"{name} {asked.replace('_', ' ')}, {region}, {table.date}"
    else:
        if instance := _priced_there(name, choices.region) or _instance(name):
            region = instance.region
        price = server_price(system.host, system.engine.engine)
        if price is not None and (payment == "on_demand" or discount is not None):
            usd, note = HOURS_A_MONTH * price.usd_per_hour, price.note
    if usd is None:
        return unknown
    if discount is not None:
        usd *= 1.0 - discount
        note += f", less the scenario's {discount:.3g} of it"
    if choices.region is not None and choices.region != region:
        if choices.region_factor is None:
            return unknown
        usd *= choices.region_factor
        note += f", × {choices.region_factor:.4g} for {choices.region}"
    return replace(unknown, usd_per_month=usd, note=note)


def zone_price(choices: Choices, name: str) -> ZonePrice | None:
    """What a byte between the zones of a node's region costs; None where it is not known."""
    table = choices.price_table
    managed = name.startswith(MANAGED)
    instance = _instance(name.removeprefix(MANAGED))
    if instance is None or instance.provider is None:
        return None
    region = choices.region or instance.region
    if instance.provider == "aws" and region == table.region:
        return table.zone_price(managed=managed)
    if str(region).startswith(("us-gov-", "cn-")):
        return None
    price = provider_zone_price(instance.provider)
    if managed and price is not None:  # of the service's nodes the client's side alone is charged
        return replace(price, usd_per_gb=price.usd_per_gb / 2, charged="on the client's side")
    return price


def _instance(name: str) -> Instance | None:
    return next((each for each in list_instances() if each.name == name), None)


def _priced_there(name: str, region: str | None) -> Instance | None:
    """An instance that is no node of a service, with its price in a region; None without one."""
    instance = _instance(name)
    return None if instance is None else priced_in(instance, region)
