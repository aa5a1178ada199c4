"""A capacity plan, and the ceiling of today's nodes, from what these tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forecache.hwprofiles import list_instances
from forecache.hwprofiles.files import named, parse, read_yaml
from forecache.models.engines.profile import load_engine
from forecache.models.plan.answer import plan
from forecache.models.plan.ceiling import ceiling, todays_node
from forecache.models.plan.results import Ceiling, FromInfo, PlanAnswer, TodayAnswer
from forecache.models.plan.schema import PlanDemand
from forecache.models.prediction.predict import Progress
from forecache.models.results.provenance import provenance
from forecache.models.scenario.kinds import check_kind
from forecache.models.scenario.schema import Slo
from forecache.models.scenario.versions import minor_version
from forecache.sim.errors import InfeasibleError, InputError

from .demand import read_today

P99_MS = 1.0
"""The objective where no scenario says one."""

FAMILIES = ("r7g.*", "r8g.*")
"""Of instances that may be chosen where no scenario says which."""


def today(
    files: Sequence[str | Path],
    scenario: str | Path | Mapping[str, Any] | None = None,
    *,
    host: str | None = None,
    node: str | Path | Mapping[str, Any] | None = None,
    asked_ceiling: bool = False,
    search: bool = True,
    full: bool = False,
    seed: int = 1,
    progress: Progress | None = None,
) -> PlanAnswer | TodayAnswer:
    """A plan whose demand some nodes tell, and how far these go.

    Parameters
    ----------
    files
        Texts of nodes: see `replies.py`.
    scenario
        Of `kind: plan`; what its `demand` and `today` say goes before what the nodes tell. Without
        one the objective is a p99 of 1 ms, and what may be chosen are r7g and r8g with today's
        engine.
    host, node
        What the nodes run on: an instance, a host or its file; and other fields of a node's
        scenario that they can't tell. The host is that of the scenario's `today` if left out; the
        ceiling is only told where it is known.
    asked_ceiling
        Whether a host that isn't known is an error.
    search
        Whether to search for plans.

    Raises
    ------
    InputError
        A file or a field is not valid.
    InfeasibleError
        Nothing that may be chosen meets the objectives; its `result` is the answer all the same.
    """
    found = read_today(files)
    file = "scenario" if scenario is None or isinstance(scenario, Mapping) else str(scenario)
    given = _given(scenario, file)
    whole = _scenario(found, given, host)
    with named(file):
        demand = parse(PlanDemand, whole["demand"], file=file)
        limit = _ceiling(found, whole, demand, host=host, node=node, seed=seed, progress=progress)
    if asked_ceiling and limit is None:
        raise InputError(
            "found no host of today's nodes, whose ceiling is asked for; valid is --host, or the "
            "scenario's today.instance."
        )
    if not search:
        return TodayAnswer("today", found, limit, provenance(seed=seed))
    try:
        with named(file):
            answer = plan(whole, seed=seed, full=full, progress=progress)
    except InfeasibleError as error:
        if isinstance(error.result, PlanAnswer):
            error.result = replace(error.result, from_info=found, ceiling=limit)
        raise
    return replace(answer, from_info=found, ceiling=limit)


def _given(scenario: str | Path | Mapping[str, Any] | None, file: str) -> dict[str, Any]:
    """The fields of the scenario, none without one.

    Raises
    ------
    InputError
        It is of another kind, or `demand` or `today` is no mapping.
    """
    if scenario is None:
        return {}
    data = dict(scenario) if isinstance(scenario, Mapping) else read_yaml(scenario)
    check_kind(data, file=file, valid=["plan"])
    for name in ("demand", "today", "objectives"):
        if not isinstance(data.get(name, {}), Mapping):
            raise InputError(
                f"{file}: field {name!r}: found {str(data[name])[:40]!r}; valid is a mapping."
            )
    return data


def _scenario(found: FromInfo, given: Mapping[str, Any], host: str | None) -> dict[str, Any]:
    """The plan's scenario: what is given, else what the nodes tell, else what is taken."""
    known = {instance.name: instance.family for instance in list_instances()}
    own = dict(given.get("today") or {})
    instance = own.get("instance") or (host if host in known else None)
    name, version = found.today["engine"], found.today["engine_version"]
    engines: list[Any] = [{"engine": name, "versions": [version]}]
    if minor_version(load_engine(name).version) != minor_version(version):
        engines.append(name)  # the newest one besides
    families = [*FAMILIES]
    if instance in known and f"{known[instance]}.*" not in families:
        families.append(f"{known[instance]}.*")
    scenario: dict[str, Any] = {
        "kind": "plan",
        "name": "What runs today",
        "objectives": {
            "slo": {"p99_ms": P99_MS, "probability": 0.9},
            "losing_a_node": _survives(found.today),
        },
        "choices": {
            "instances": families,
            "engines": engines,
            "replicas": [found.today["replicas"]],
        },
        **given,
        "demand": {**found.demand, **dict(given.get("demand") or {})},
    }
    if instance is not None:
        scenario["today"] = {"instance": instance, **found.today, **own}
    return scenario


def _survives(today: Mapping[str, Any]) -> str:
    """What survives the loss of a node today."""
    if today["replicas"]:
        return "data"
    return "load" if today["shards"] > 1 else "nothing"


def _ceiling(
    found: FromInfo,
    whole: Mapping[str, Any],
    demand: PlanDemand,
    *,
    host: str | None,
    node: str | Path | Mapping[str, Any] | None,
    seed: int,
    progress: Progress | None,
) -> Ceiling | None:
    """How far today's nodes go; None where it isn't known what they run on."""
    fields = {} if node is None else dict(node) if isinstance(node, Mapping) else read_yaml(node)
    name = host or (whole.get("today") or {}).get("instance")
    if name is not None:
        fields.setdefault("host", str(name).removeprefix("cache."))
    if "host" not in fields:
        if node is not None:
            raise InputError(f"{node}: the field 'host' is missing; valid is a host, or --host.")
        return None
    if progress is not None:
        progress("looking for the ceiling of today's nodes")
    slo = parse(Slo, (whole["objectives"] or {}).get("slo") or {}, file="objectives.slo")
    scenario = todays_node(found, demand, slo=slo.model_dump(exclude_none=True), node=fields)
    with named("node" if isinstance(node, Mapping) or node is None else node):
        return ceiling(found, scenario, seed=seed)
