"""A capacity plan, and the ceiling of today's nodes, from what these tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forecache.hwprofiles import list_instances
from forecache.hwprofiles.catalogue import load_host
from forecache.hwprofiles.files import named, parse
from forecache.models.advice.answers import load_cases, recommend_cases
from forecache.models.advice.node_answers import Recommended
from forecache.models.cost.bill import BACKUPS, CLIENTS, NODES, REPLICAS, SUPPORT
from forecache.models.engines.profile import load_engine
from forecache.models.plan.answer import plan
from forecache.models.plan.capacity_limit import (
    busiest_primary,
    capacity_limit,
    measured_corrections,
)
from forecache.models.plan.own_times import OwnTimeCorrections
from forecache.models.plan.results import (
    BilledCache,
    CapacityLimit,
    ComparedLine,
    FromInfo,
    PlanAnswer,
    TodayAnswer,
)
from forecache.models.plan.schema import PlanDemand
from forecache.models.plan.shard import MANAGED, elects
from forecache.models.prediction.predict import Progress
from forecache.models.prices.table import NODE_PRICES, load_prices
from forecache.models.results.displayed import provenance
from forecache.models.scenario.command_table import DESCRIBED_BY, commands_on
from forecache.models.scenario.schema import Slo
from forecache.models.scenario.source import ScenarioSource, check_kind, read_scenario
from forecache.models.scenario.versions import minor_version
from forecache.sim.errors import InfeasibleError, InputError, NotKnownError

from ..observe.readers.lines import Place, shown
from .bill import (
    DISCOUNTS,
    DURABILITY,
    ENGINE,
    NODE_CHARGES,
    SERVERLESS,
    TRAFFIC,
    TodaysBill,
    cache_and_shard,
    columns_of,
    is_export,
    todays_bill,
)
from .demand import NO_INFO, read_today
from .metrics import LAYOUTS, NodeMetrics, TodaysMetrics, is_metrics, metrics_of, todays_metrics
from .nodes import MOST_NOT_MODELLED

P99_MS = 1.0
"""The objective where no scenario says one."""

IDLE_BUSY = 0.02
"""Share of a main thread's time that timers, replicas and monitoring may take (assumed: replicas of
small load are seen with half of it)."""

FAMILIES = ("r7g.*", "r8g.*")
"""Of instances that may be chosen where no scenario says which."""


def today(
    files: Sequence[str | Path],
    scenario: str | Path | Mapping[str, Any] | None = None,
    *,
    bill: Sequence[str | Path] = (),
    cache: str | None = None,
    host: str | None = None,
    node: str | Path | Mapping[str, Any] | None = None,
    region: str | None = None,
    asked_ceiling: bool = False,
    times: float = 1.0,
    search: bool = True,
    full: bool = False,
    seed: int = 1,
    progress: Progress | None = None,
) -> PlanAnswer | TodayAnswer:
    """A plan whose demand some nodes tell, and how far these go.

    Parameters
    ----------
    files
        Of nodes, RDB files, and what `--bigkeys` prints: see `read_today`; none where only a bill
        is read.
    scenario
        Of `kind: plan`; what its `demand` and `today` say goes before what the files tell. Without
        one the objective is a p99 of 1 ms, and what may be chosen are r7g and r8g with today's
        engine, or r7g and today's family of ElastiCache's nodes where a bill tells of them.
    bill, cache
        CSV files of a bill and of metrics (`bill.py`, `metrics.py`); and which of the caches in
        it is meant, the dearest of those with metrics without it.
    host, node
        What the nodes run on: an instance, a host or its file; and other fields of a node's
        scenario that they can't tell. The host is that of the scenario's `today` if left out; the
        ceiling is only told where it is known.
    region
        Whose prices plans have, in place of the scenario's.
    asked_ceiling
        Whether a host that isn't known is an error.
    times
        The multiple of today's load that is asked about, and planned for.
    search
        Whether to search for plans.

    Raises
    ------
    InputError
        A file or a field is not valid.
    InfeasibleError
        Nothing that may be chosen meets the objectives; its `result` is the answer all the same.
    NotKnownError
        What the nodes execute is not modelled, and the scenario has no `demand.operations` in its
        place; its `result` is what the files tell.
    """
    found, billed = _read(files, bill, cache, progress)
    file = "scenario" if scenario is None or isinstance(scenario, Mapping) else str(scenario)
    given = _scenario_fields(scenario, file)
    own = {f"demand.{name}" for name in given.get("demand") or {}}
    found = replace(found, needed={n: why for n, why in found.needed.items() if n not in own})
    whole = _scenario(found, billed, given, host)
    if region is not None:
        whole = {**whole, "choices": {**whole["choices"], "region": region}}
    asks = bool((whole.get("demand") or {}).get("operations"))
    told = None if billed is None else billed.result
    only_told = TodayAnswer("today", found, None, provenance(seed=seed), from_bill=told)
    missing = NotKnownError(" ".join(found.needed.values()), result=only_told)
    # What commands take that are not modelled is part of what a node says of its own times.
    on = _node_fields(whole, host, node).get("host")
    if host is not None:
        load_host(str(host).removeprefix("cache."))  # one that isn't known is refused first
    wanted = search or asked_ceiling or asks or on is not None
    if found.needed and wanted and not (asks and on is not None and _tell_times(found)):
        raise missing
    if not asks and (search or asked_ceiling):
        raise InputError(
            "found no demand: a bill tells of nodes and costs only, files of keys of data only; "
            "valid besides is INFO ALL of the nodes (--from-info), a CSV file of CloudWatch "
            "metrics (--from-bill), or demand.operations in a scenario."
        )
    limit = corrections = None
    if asks:
        with named(file):
            demand = parse(PlanDemand, whole["demand"], file=file)
            limit, corrections = _ceiling(
                *(found, whole, demand),
                host=host,
                node=node,
                times=times,
                seed=seed,
                progress=progress,
            )
    if found.needed and corrections is None and wanted:
        raise missing
    if found.needed and corrections is not None:
        found = _taken_as_measured(found)
        only_told = replace(only_told, from_info=found)
    if limit is None and (asked_ceiling or times != 1.0):
        asked = "ceiling" if asked_ceiling else f"{times:g} times today's peak"
        raise InputError(
            f"found no host of today's nodes, whose {asked} is asked for; valid is INFO of them "
            "with --host, or the scenario's today.instance."
        )
    if (
        "demand.operations" not in own
        and limit is not None
        and (why := _unexplained_load(found, limit))
    ):
        found = replace(found, needed={"demand.operations": why})
        raise NotKnownError(why, result=replace(only_told, from_info=found))
    found = _with_better_looks(found, limit)
    if not search:
        return replace(only_told, from_info=found, ceiling=limit)
    if times != 1.0:
        whole["demand"]["operations"] = {
            name: {**each.model_dump(), "a_second": times * each.a_second}
            for name, each in demand.operations.by_command.items()
        }
    try:
        with named(file):
            answer = plan(whole, seed=seed, full=full, corrections=corrections, progress=progress)
    except InfeasibleError as error:
        if isinstance(error.result, PlanAnswer):
            error.result = replace(error.result, from_info=found, ceiling=limit, from_bill=told)
        raise
    if billed is not None:
        told = replace(billed.result, compared=compare_bill(billed.cache, answer))
    return replace(answer, from_info=found, ceiling=limit, from_bill=told)


def _read(
    files: Sequence[str | Path],
    bill: Sequence[str | Path],
    cache: str | None,
    progress: Progress | None,
) -> tuple[FromInfo, TodaysBill | None]:
    """What texts of nodes, exports and metrics tell together.

    Where they tell the same, texts of nodes go before metrics; the machine, its engine and its
    price are those of the bill.
    """
    info = read_today(files, progress=progress) if files else None
    if not bill:
        if info is None:
            raise InputError("found no files of today's nodes; valid is one at least.")
        return info, None
    exports: list[str | Path] = []
    metrics: list[str | Path] = []
    for path in bill:
        columns = columns_of(path)
        if not (is_export(columns) or is_metrics(columns)):
            raise Place(str(path), 1).wrong(
                f"the columns {shown(', '.join(columns))}",
                valid="an export of a bill, with lineItem/UsageType or line_item_usage_type, or "
                "CloudWatch metrics with a timestamp",
            )
        (exports if is_export(columns) else metrics).append(path)
    nodes = metrics_of(metrics)
    groups = {cache_and_shard(node.name)[0] for node in nodes}
    billed = todays_bill(exports, cache=cache, seen=groups) if exports else None
    meant = cache
    if billed is not None and billed.cache is not None:
        meant = billed.cache.name
    asked = _metrics_of(nodes, meant, billed, metrics)
    told = {} if billed is None else billed.today
    if info is None:
        info = FromInfo([], {}, {}, [], [], [], [])
    told_fields = {each.field for each in info.known}
    unknown = info.unknown
    if not info.nodes:  # only files of keys, if any
        unknown = [*(each for each in unknown if each != NO_INFO), *asked.unknown]
    found = replace(
        info,
        nodes=info.nodes or asked.nodes,
        demand={**asked.demand, **info.demand},
        today={**info.today, **told},
        known=[*info.known, *(each for each in asked.known if each.field not in told_fields)],
        unknown=unknown,
        needed=info.needed if info.nodes else asked.needed,
    )
    return found, billed


def _unexplained_load(found: FromInfo, limit: CapacityLimit) -> str:
    """What to give where metrics say that a node is far busier than its GETs and SETs make it.

    Up to `IDLE_BUSY` a main thread is busy with other things than requests.
    """
    predicted, peak_rps = limit.main_thread_busy, sum(node.rate_rps for node in limit.nodes)
    if predicted is None or not peak_rps:
        return ""
    # The prediction is of the mean primary.
    each_s = predicted.high * len(limit.nodes) / peak_rps
    for node in found.nodes:
        if node.role != "primary" or node.main_thread_busy is None:
            continue
        busy, explained = node.main_thread_busy, each_s * node.peak_rps
        if explained < (1.0 - MOST_NOT_MODELLED) * (busy - IDLE_BUSY):
            return (
                f"EngineCPUUtilization of {node.name}: {busy:.0%} at {node.peak_rps:,.0f} "
                f"operations a second, of which GET and SET explain {explained:.0%} at most, so "
                "that no capacity, headroom or plan can be given. Give INFO ALL of the nodes "
                "(--from-info), which tells the commands, or a scenario of kind plan with "
                "demand.operations."
            )
    return ""


def _tell_times(found: FromInfo) -> bool:
    """Whether nodes' own times stand for what is needed; of data they tell nothing."""
    only_commands = found.needed.keys() <= {"demand.operations"}
    return only_commands and any(each.times for each in found.nodes)


def _taken_as_measured(found: FromInfo) -> FromInfo:
    """The same with what nodes measured in place of commands that are not modelled."""
    named = ", ".join(name.upper() for name in list(found.not_modelled)[:_NAMED])
    words = (
        f"what {named} take, {sum(found.not_modelled.values()):.0%} of the execution time with "
        "others: it is taken as the nodes measured it, and on other machines in proportion"
    )
    return replace(found, needed={}, unknown=[*found.unknown, words])


_NAMED = 4


def _metrics_of(
    nodes: Sequence[NodeMetrics],
    meant: str | None,
    billed: TodaysBill | None,
    files: Sequence[str | Path],
) -> TodaysMetrics:
    """What the metrics of the cache that is meant tell; nothing without any."""
    if not nodes:
        return TodaysMetrics()
    groups = {cache_and_shard(node.name)[0] for node in nodes}
    of_it = [node for node in nodes if cache_and_shard(node.name)[0] == meant]
    if not of_it and len(groups) == 1 and (meant is None or billed is None or groups == {""}):
        of_it = list(nodes)
    if not of_it:
        names = ", ".join(sorted(groups)[:5])
        raise InputError(
            f"{files[0]}: found metrics of {names or 'a node without a name'}, and none of "
            f"{meant or 'one cache'}; valid are those of the cache that is meant (--cache)."
        )
    cache = None if billed is None else billed.cache
    engine, version = LAYOUTS["valkey" if cache and cache.engine == "valkey" else "redis"]
    return todays_metrics(of_it, engine=engine, version=version)


def _scenario_fields(scenario: str | Path | Mapping[str, Any] | None, file: str) -> dict[str, Any]:
    """The fields of the scenario, none without one."""
    if scenario is None:
        return {}
    data = read_scenario(scenario).data
    check_kind(data, file=file, valid=["plan"])
    for name in ("demand", "today", "objectives"):
        if not isinstance(data.get(name, {}), Mapping):
            raise InputError(
                f"{file}: field {name!r}: found {str(data[name])[:40]!r}; valid is a mapping."
            )
    return data


def _scenario(
    found: FromInfo, billed: TodaysBill | None, given: Mapping[str, Any], host: str | None
) -> dict[str, Any]:
    """The plan's scenario: what is given, else what the files tell, else what is taken."""
    known = {instance.name: instance.family for instance in list_instances()}
    own = dict(given.get("today") or {})
    instance = own.get("instance") or found.today.get("instance")
    instance = instance or (host if host in known else None)
    choices = _managed_choices(found, billed) if billed is not None else None
    if choices is None:
        choices = _own_choices(found, instance, known)
    scenario: dict[str, Any] = {
        "kind": "plan",
        "name": "Capacity of what runs today",
        "objectives": {
            "slo": {"p99_ms": P99_MS, "probability": 0.9},
            "losing_a_node": _survives(found.today),
            "failover": todays_failover(found.today, instance),
        },
        "choices": choices,
        **given,
        "demand": _merge_demand(found.demand, given.get("demand") or {}),
    }
    if instance is not None and (own or found.today.keys() >= {"engine", "shards"}):
        scenario["today"] = {**found.today, "instance": instance, **own}
    return scenario


def _merge_demand(found: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A demand: what is given goes first; collections only where operations work on them."""
    demand = {**found, **given}
    for data_type, field in DESCRIBED_BY.items():
        asked = set(commands_on(data_type)) & set(demand.get("operations") or {})
        if field not in given and not asked:
            demand.pop(field, None)
    return demand


def _own_choices(found: FromInfo, instance: str | None, known: Mapping[str, str]) -> dict[str, Any]:
    """Instances of r7g, r8g and today's family, with today's engine."""
    families = [*FAMILIES]
    family = known.get(instance or "")
    if family is not None and f"{family}.*" not in families:
        families.append(f"{family}.*")
    if "engine" not in found.today:
        return {"instances": families, "engines": ["valkey"]}
    name, version = found.today["engine"], found.today["engine_version"]
    engines: list[Any] = [{"engine": name, "versions": [version]}]
    if minor_version(load_engine(name).version) != minor_version(version):
        engines.append(name)  # the newest one besides
    choices = {"instances": families, "engines": engines}
    if "replicas" in found.today:
        choices["replicas"] = [found.today["replicas"]]
    return choices


def _managed_choices(found: FromInfo, billed: TodaysBill) -> dict[str, Any] | None:
    """Nodes of ElastiCache, and what to compare them with; None where none run today."""
    if billed.cache is None or "engine" not in billed.today:
        return None
    family = billed.cache.node_type.rpartition(".")[0]
    priced = {name.rpartition(".")[0] for name in load_prices(NODE_PRICES).nodes.types}
    families = {"cache.r7g", "cache.m7g", family} & priced
    hosts = {f"cache.{instance.family}" for instance in list_instances()}
    return {
        "instances": [f"{name}.*" for name in sorted(families & hosts)],
        "engines": [ENGINE],
        "replicas": [found.today.get("replicas", 0)],
        "serverless": True,
        "data_tiering": True,
        **billed.choices,
    }


def _survives(today: Mapping[str, Any]) -> str:
    """What survives the loss of a node today."""
    if today.get("replicas"):
        return "data"
    return "load" if today.get("shards", 1) > 1 else "nothing"


def todays_failover(today: Mapping[str, Any], instance: str | None) -> str:
    """Who sees to it today that service goes on when a node is lost."""
    managed = str(instance).startswith(MANAGED)
    shards, replicas = today.get("shards", 1), today.get("replicas", 0)
    by_itself = replicas > 0 and (managed or elects(shards, replicas, what="node", zones=1))
    return "automatic" if by_itself else "by_hand"


def _node_fields(
    whole: Mapping[str, Any], host: str | None, node: ScenarioSource | None
) -> dict[str, Any]:
    """Fields of a node's scenario that INFO can't tell, its host among them where it is known."""
    fields = {} if node is None else dict(read_scenario(node).data)
    name = host or (whole.get("today") or {}).get("instance")
    if name is not None:
        fields.setdefault("host", str(name).removeprefix("cache."))
    return fields


def recommended_today(
    files: Sequence[str | Path],
    *,
    host: str | None = None,
    node: ScenarioSource | None = None,
    seed: int = 1,
    progress: Progress | None = None,
) -> Recommended:
    """The number of I/O threads for today's nodes as they are, under their peak.

    Commands are taken to come one at a time, also where they come in pipelines.

    Parameters
    ----------
    files, host, node
        As in `today`; `node` may have an `slo` in place of a p99 of 1 ms.

    Raises
    ------
    InputError
        A file or a field is not valid, or nothing says what the nodes run on.
    InfeasibleError
        No number of threads meets the objective; its `result` is the answer all the same.
    NotKnownError
        What the nodes execute is not modelled, and they tell no times of their own.
    """
    found = read_today(files, progress=progress)
    whole = _scenario(found, None, {}, host)
    fields = _node_fields(whole, host, node)
    if "host" not in fields or "engine" not in found.today or not found.nodes:
        raise InputError(
            f"{files[0]}: found nothing that says what today's nodes run on; valid is INFO of them "
            "with --host, or a --node file with a host."
        )
    unknown = NotKnownError(
        " ".join(found.needed.values()),
        result=TodayAnswer("today", found, None, provenance(seed=seed)),
    )
    if "operations" not in whole["demand"] or (found.needed and not _tell_times(found)):
        raise unknown
    demand = parse(PlanDemand, whole["demand"], file="demand")
    scenario = dict(busiest_primary(found, demand, slo={"p99_ms": P99_MS}, node=fields))
    if "io_threads" not in fields:
        del scenario["io_threads"]  # is what is asked about
    cases = load_cases(scenario)
    corrections = None
    if len(cases) == 1:
        [(case, system)] = cases
        _, corrections, _ = measured_corrections(found, case.scenario, system, seed=seed)
    if found.needed and corrections is None:
        raise unknown
    if corrections is not None:
        cases = [(case, corrections.of(system)) for case, system in cases]
    return recommend_cases(cases, file=str(files[0]), seed=seed, progress=progress)


def _ceiling(
    found: FromInfo,
    whole: Mapping[str, Any],
    demand: PlanDemand,
    *,
    host: str | None,
    node: str | Path | Mapping[str, Any] | None,
    times: float,
    seed: int,
    progress: Progress | None,
) -> tuple[CapacityLimit | None, OwnTimeCorrections | None]:
    """How far today's nodes go and what they told; None where it isn't known what they run on."""
    fields = _node_fields(whole, host, node)
    if "host" not in fields or "engine" not in found.today or not found.nodes:
        if node is not None:
            raise InputError(f"{node}: the field 'host' is missing; valid is a host, or --host.")
        return None, None
    if progress is not None:
        progress("looking for the ceiling of today's nodes")
    slo = parse(Slo, (whole["objectives"] or {}).get("slo") or {}, file="objectives.slo")
    scenario = busiest_primary(found, demand, slo=slo.model_dump(exclude_none=True), node=fields)
    with named("node" if isinstance(node, Mapping) or node is None else node):
        return capacity_limit(found, scenario, times=times, seed=seed)


_TELLING = 0.4
"""Share of the limit from which on two looks tell most of what a node can serve: idle cores lose
their caches, which is known to half of it only."""


def _with_better_looks(found: FromInfo, limit: CapacityLimit | None) -> FromInfo:
    """The same with what else would tell more of the nodes' capacity, before all others."""
    if not found.nodes:
        return found
    if limit is None:
        words = (
            "on what the nodes run (--host): its type of instance, or the file that `forecache "
            "profile --out host.yaml` writes there; without it nothing says what they can serve"
        )
        return replace(found, look_next=[words, *found.look_next])
    means = [node.rate_rps for node in found.nodes if node.role == "primary"]
    mean_rps, most_rps = sum(means) / len(means), limit.ceiling_rps.value
    if not limit.corrected or mean_rps >= _TELLING * most_rps > 0.0:
        return found
    words = (
        f"two looks while a primary serves {_TELLING:.0%} of its limit or more, "
        f"{_TELLING * most_rps:,.0f} commands a second: at the {mean_rps:,.0f} of these files its "
        "core rests most of the time, and what that adds to a command is known to half of it only"
    )
    return replace(found, look_next=[words, *found.look_next])


# --- what is billed beside the plan --------------------------------------------------------------


_PARTS = (
    ("nodes", NODE_CHARGES, (NODES,)),
    (SUPPORT, (SUPPORT,), (SUPPORT,)),
    (DURABILITY, (DURABILITY,), ()),
    (BACKUPS, (BACKUPS,), (BACKUPS,)),
    ("traffic between zones", (TRAFFIC,), (CLIENTS, REPLICAS)),
    (SERVERLESS, (SERVERLESS,), ()),
    (DISCOUNTS, (DISCOUNTS,), ()),
)
"""What is compared: kinds of charges of an export, lines of a plan's bill."""


def compare_bill(cache: BilledCache | None, answer: PlanAnswer) -> list[ComparedLine]:
    """The parts that one of them has; none without a cache or a plan.

    Traffic between zones stands elsewhere in an export, of all the account together.
    """
    if cache is None or not answer.plans:
        return []
    best, found = answer.plans[0], []
    missing = {each.what for each in best.not_priced}
    for what, charged, planned in _PARTS:
        today = [line.usd_per_month for line in cache.lines if line.what in charged]
        later = [line.usd for line in best.bill if line.what in planned]
        if not today and not later:
            continue
        unknown_today = TRAFFIC in charged and not today
        unknown_later = bool(missing & set(planned))  # the sum of some of its lines is none
        found.append(
            ComparedLine(
                what,
                None if unknown_today else sum(today),
                None if unknown_later else sum(later),
            )
        )
    return found
