"""What the page can change in a scenario: which control stands for which field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from forecache.hwprofiles import list_hosts, list_instances
from forecache.models.engines.profile import list_engines
from forecache.models.scenario.command_table import DESCRIBED_BY
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.source import NODE, check_kind
from forecache.models.scenario.sweeps import Sweep
from forecache.sim.errors import InputError

GET_PERCENT, TLS, OFFERED = "get_percent", "tls", "rate_rps"


@dataclass(frozen=True)
class Control:
    """One control of a scenario."""

    name: str
    """A field of the scenario or of its workload, or `engine`, `get_percent` or `tls`."""
    label: str
    kind: Literal["text", "choice", "number", "switch"]
    hint: str = ""
    least: float | None = None
    most: float | None = None


CONTROLS = (
    Control("host", "Host or instance", "text", "c7g.4xlarge, graviton3, a file"),
    Control("engine", "Engine", "choice"),
    Control("io_threads", "io-threads", "number", "main thread included", 1, 256),
    Control("clients", "Clients", "number", "", 1),
    Control("pipeline", "Pipeline", "number", "commands at once", 1),
    Control("value_bytes", "Value size, bytes", "number", "", 0),
    Control("keys", "Keys", "number", "", 1),
    Control(GET_PERCENT, "GET, %", "number", "the rest is SET", 0, 100),
    Control(OFFERED, "Offered load, requests/s", "number", "empty: as fast as clients get", 1),
    Control(TLS, "TLS", "switch"),
)

_OF_WORKLOAD = ("clients", "pipeline", "value_bytes", "keys")


def engine_names() -> list[str]:
    """`valkey 9.1` and so on, one for each engine that the catalogue has."""
    return sorted({f"{engine.engine} {engine.version}" for engine in list_engines()})


def host_names() -> list[str]:
    """Hosts and instances of the catalogue."""
    return [*(host.id for host in list_hosts()), *(row.name for row in list_instances())]


def one_node(data: Mapping[str, Any], *, file: str) -> tuple[dict[str, Any], list[int]]:
    """A scenario of one node without sweeps, and the thread counts that it sweeps.

    The first of these takes the sweep's place.

    Raises
    ------
    InputError
        It is of another kind, or sweeps another field.
    """
    check_kind(dict(data), file=file, valid=[NODE])
    sweep = Sweep(data, file=file)
    if set(sweep.template.names) - {"io_threads"}:
        raise InputError(
            f"{file}: found a sweep over {', '.join(sweep.template.names)}; valid is a scenario "
            "without sweeps, or with one over io_threads."
        )
    threads = list(sweep.values[0]) if sweep.values else []
    return sweep.template.filled(sweep.combination(0)), threads


def with_changes(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario with some controls set; whether their values are valid, its schema says.

    Parameters
    ----------
    changes
        Texts by name of a control, as a form has them; of the switch true or false.
    """
    names = {control.name for control in CONTROLS}
    found = dict(data)
    workload = dict(found.get("workload") or {})
    for name, value in changes.items():
        if name not in names:
            raise InputError(f"found the control {name!r}; valid are {', '.join(sorted(names))}.")
        if name == TLS:
            found.pop("tls", None)
            found |= {"tls": True} if value else {}
        elif name == OFFERED:
            _set_load(workload, str(value).strip())
        elif name == GET_PERCENT:
            for other in ("command", *DESCRIBED_BY.values()):
                workload.pop(other, None)
            workload["mix"] = _mix(value)
        elif name == "engine":
            found["engine"], _, version = str(value).partition(" ")
            found["engine_version"] = version or None
        elif name in _OF_WORKLOAD:
            workload[name] = _number(value)
        else:
            found[name] = _number(value) if name == "io_threads" else str(value).strip()
    return {key: value for key, value in found.items() if value is not None} | {
        "workload": workload
    }


def values_of(scenario: Scenario, *, engine: str) -> dict[str, Any]:
    """What each control shows of a scenario; None where no single value says it.

    Parameters
    ----------
    engine
        Which of `engine_names` it is.
    """
    workload = scenario.workload
    size = workload.value_bytes
    get_percent = round(100.0 * workload.get_fraction, 6) if workload.only_get_and_set else None
    return {
        "host": scenario.host,
        "engine": engine,
        "io_threads": scenario.io_threads,
        "clients": workload.clients,
        "pipeline": workload.pipeline,
        "value_bytes": size if isinstance(size, int) else None,
        "keys": workload.keys,
        GET_PERCENT: get_percent,
        OFFERED: workload.rate_rps,
        TLS: scenario.tls is not None,
    }


def _set_load(workload: dict[str, Any], text: str) -> None:
    """An open loop at a rate, or without one a closed loop."""
    for name in ("rate_rps", "rate_profile", "bursts", "trace"):
        workload.pop(name, None)
    workload["arrival"] = "open_loop" if text else "closed_loop"
    if text:
        workload["rate_rps"] = _number(text)


def _mix(value: Any) -> dict[str, float]:
    percent = _number(value)
    if not isinstance(percent, int | float) or not 0 <= percent <= 100:
        raise InputError(f"GET: found {value!r}; valid is a share from 0 to 100 per cent.")
    shares = {"get": percent / 100.0, "set": round(1.0 - percent / 100.0, 12)}
    return {name: share for name, share in shares.items() if share > 0}


def _number(value: Any) -> Any:
    """The number that a text says, or the text."""
    text = str(value).strip().replace("_", "")
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text
