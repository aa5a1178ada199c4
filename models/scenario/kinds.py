"""The kinds of scenario: the verb that answers each, its schema, and what simulates it.

Packages below those of a kind check it too, so a row names schema and function as `module:name` and
they are imported when they are asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pydantic import BaseModel

from forecache.sim.errors import InputError

NODE = "node"
"""One node in a steady state: what a file without `kind` is about."""

_MODELS = "forecache.models"


@dataclass(frozen=True)
class Kind:
    """A kind of scenario."""

    verb: str
    """Of the command line. A node's scenario has other verbs besides."""
    schema_at: str
    """Module and name of its schema, which has `name`, and unless it is a node's `kind`."""
    run_at: str | None = None
    """Module and name of what simulates it over time, if anything does: takes a scenario of that
    schema, a seed and something to report steps to, answers with a `Run` and raises InputError for
    what the schema can't see. A function of a module, for executors of processes."""

    @property
    def schema(self) -> type[BaseModel]:
        """Fields of its file."""
        found: type[BaseModel] = _named(self.schema_at)
        return found

    @property
    def run(self) -> Callable[..., Any]:
        """What simulates it; only of a kind that has one."""
        assert self.run_at is not None
        found: Callable[..., Any] = _named(self.run_at)
        return found


KINDS: dict[str, Kind] = {
    NODE: Kind("simulate", f"{_MODELS}.scenario.schema:Scenario"),
    "cluster": Kind(
        "simulate",
        f"{_MODELS}.over_time.cluster.schema:ClusterScenario",
        f"{_MODELS}.over_time.cluster.run:run_cluster",
    ),
    "overcommit": Kind(
        "simulate",
        f"{_MODELS}.over_time.overcommit.schema:OvercommitScenario",
        f"{_MODELS}.over_time.overcommit.run:run_overcommit",
    ),
    "serverless": Kind(
        "simulate",
        f"{_MODELS}.over_time.serverless.schema:ServerlessScenario",
        f"{_MODELS}.over_time.serverless.run:run_serverless",
    ),
    "large_commands": Kind(
        "simulate",
        f"{_MODELS}.over_time.large_commands.scenario:LargeCommands",
        f"{_MODELS}.over_time.large_commands.simulate:simulate_large_commands",
    ),
    "memory": Kind("memory", f"{_MODELS}.footprint.schema:MemoryScenario"),
    "cost": Kind("cost", f"{_MODELS}.cost.schema:CostScenario"),
    "plan": Kind("plan", f"{_MODELS}.plan.schema:PlanScenario"),
}
"""By the word that stands in the file."""


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def check_kind(data: Mapping[str, Any], *, file: str, valid: Sequence[str]) -> str:
    """The kind of a scenario.

    Parameters
    ----------
    valid
        Kinds that the caller can answer.

    Raises
    ------
    InputError
        It is none of them; the message says which verb is for it.
    """
    kind = data.get("kind", NODE)
    if isinstance(kind, str) and kind in valid:
        return kind
    found = f"{file}: field 'kind': found {kind!r}"
    words = " or ".join(f"{name} (or no kind)" if name == NODE else name for name in valid)
    if isinstance(kind, str) and kind in KINDS:
        raise InputError(
            f"{found}; valid here is {words}; `forecache {KINDS[kind].verb}` is for {kind}."
        )
    if not isinstance(kind, str):
        raise InputError(f"{found}; valid is {_all_kinds()}.")
    close = difflib.get_close_matches(kind.lower(), KINDS, n=1)
    guess = f"did you mean {close[0]!r}? Valid is" if close else "valid is"
    raise InputError(f"{found}; {guess} {_all_kinds()}.")


def _all_kinds() -> str:
    verbs: dict[str, list[str]] = {}
    for name, kind in KINDS.items():
        verbs.setdefault(kind.verb, []).append(name)
    return "; ".join(f"{', '.join(kinds)} (`forecache {verb}`)" for verb, kinds in verbs.items())
