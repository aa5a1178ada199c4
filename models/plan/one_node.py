"""`recommend` over lists of hosts and engine versions: a plan of one node.

A node's scenario whose `host`, `engine` or `engine_version` is a list (`{sweep: [...]}`) asks which
of them serves its load for the least money. That is a plan of one shard without replicas, growth
and headroom.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forecache.hwprofiles import list_instances
from forecache.hwprofiles.files import did_you_mean, is_sweep, named
from forecache.sim.errors import InputError

from ..advice.cases import MACHINE_FIELDS, machine_lists
from ..prediction.predict import Progress
from ..scenario.command_table import DESCRIBED_BY
from ..scenario.schema import Scenario
from ..scenario.source import NODE, ScenarioSource, read_scenario
from ..scenario.sweeps import expand
from .answer import plan
from .results import PlanAnswer
from .shard import MANAGED

_KEPT = {
    "kind",
    "name",
    "region",
    *MACHINE_FIELDS,
    "tls",
    "io_threads",
    "persistence",
    "workload",
    "slo",
}
_WORKLOAD = {
    *("arrival", "rate_rps", "clients", "command", "mix", "keys", "key_bytes", "value_bytes"),
    *("popularity", *DESCRIBED_BY.values(), "slow_command"),
}


def recommend_machines(
    source: ScenarioSource, *, seed: int = 1, progress: Progress | None = None
) -> PlanAnswer:
    """The hosts, engines and versions that a node's scenario lists, ranked by cost.

    Raises
    ------
    InfeasibleError
        None of them meets the slo.
    """
    given = read_scenario(source)
    given.kind([NODE])
    with named(given.name):
        asked = one_node_plan(given.data, file=given.name)
        return plan(asked, seed=seed, progress=progress)


def check_one_node(source: ScenarioSource, *, why: str) -> None:
    """Refuse lists of hosts, engines or versions, with an `InputError` that ends with `why`."""
    given = read_scenario(source)
    if found := machine_lists(given.data):
        raise InputError(
            f"{given.name}: field {found[0]!r}: found a list; valid is one, since {why}."
        )


def one_node_plan(data: Mapping[str, Any], *, file: str) -> dict[str, Any]:
    """The plan that a node's scenario with such lists asks for."""
    cases = [case.scenario for case in expand(data, file=file, schema=Scenario)]
    first = cases[0]
    _check(data, first, file=file)
    workload = first.workload
    hosts = list(dict.fromkeys(str(case.host) for case in cases))
    known = {instance.name for instance in list_instances()}
    for host in hosts:
        if host not in known and not host.startswith(MANAGED):
            raise InputError(
                f"{file}: field 'host': found {host!r} in a list; valid is an instance of "
                f"`forecache catalog`, whose price is known: {did_you_mean(host, known)}"
            )
    engines: dict[str, list[str]] = {}
    for case in cases:
        versions = engines.setdefault(case.engine, [])
        if case.engine_version is not None and case.engine_version not in versions:
            versions.append(case.engine_version)
    threads = list(dict.fromkeys(case.io_threads for case in cases))
    described = workload.model_dump(
        mode="json",
        include={
            *("keys", "value_bytes", "popularity", *DESCRIBED_BY.values(), "slow_command"),
        },
        exclude_none=True,
    )
    return {
        "kind": "plan",
        "name": first.name or "One node",
        "demand": {
            **described,
            "operations": _operations(first),
            "key_bytes": workload.whole_key_bytes,
            "clients_per_node": workload.clients,
            "zones": 1,  # where clients are is not asked
            "tls": None if first.tls is None else first.tls.model_dump(),
            "persistence": (
                "none" if isinstance(first.persistence, str) else first.persistence.model_dump()
            ),
        },
        "objectives": {
            "slo": first.slo.model_dump(exclude_none=True) if first.slo else {},
            "memory_headroom": 0.0,
            "cpu_headroom": 0.0,
            "losing_a_node": "nothing",
        },
        "choices": {
            "instances": hosts,
            "engines": [
                {"engine": name, "versions": versions} if versions else {"engine": name}
                for name, versions in engines.items()
            ],
            "io_threads": threads if is_sweep(data.get("io_threads")) else "automatic",
            "shards": {"least": 1, "most": 1},
            "replicas": [0],
            "region": first.region,
        },
    }


def _check(data: Mapping[str, Any], scenario: Scenario, *, file: str) -> None:
    """Refuse fields that a plan of one node does not have."""
    workload = scenario.workload
    if workload.arrival != "open_loop" or workload.rate_rps is None or scenario.slo is None:
        raise InputError(
            f"{file}: found a list of {' and '.join(machine_lists(data))} without a rate to serve "
            "and an slo; valid with it are arrival open_loop, rate_rps and slo, since hosts and "
            "engines are compared by what it costs to meet them; simulate takes any sweep."
        )
    inner = data.get("workload") or {}
    others = [name for name in data if name not in _KEPT]
    others += [f"workload.{name}" for name in inner if name not in _WORKLOAD]
    others += ["workload.mix.other"] if workload.mix and workload.mix.other else []
    swept = [f"workload.{name}" for name, value in inner.items() if is_sweep(value)]
    swept += [name for name in ("tls", "persistence", "slo") if is_sweep(data.get(name))]
    if others or swept:
        raise InputError(
            f"{file}: field {(others or swept)[0]!r}: found it with a list of "
            f"{' and '.join(machine_lists(data))}; valid there is nothing, or one host and engine."
        )


def _operations(scenario: Scenario) -> dict[str, Any]:
    """Operations a second by command."""
    rate_rps, found = scenario.workload.rate_rps or 0.0, dict[str, Any]()
    for name, asked in scenario.workload.commands.items():
        a_second = rate_rps * asked.share
        if a_second <= 0:
            continue
        found[name] = {"a_second": a_second, **asked.model_dump(exclude={"share"})}
    return found
