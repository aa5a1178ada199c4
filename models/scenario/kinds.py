"""Which verb answers a scenario, by the kind that its file names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from forecache.sim.errors import InputError

NODE = "node"
"""One node in a steady state: what a file without `kind` is about."""

VERBS: dict[str, str] = {
    NODE: "simulate",
    "cluster": "simulate",
    "overcommit": "simulate",
    "serverless": "simulate",
    "large_commands": "simulate",
    "memory": "memory",
    "cost": "cost",
}
"""By the kind that stands in a file. A node's scenario has other verbs besides."""


def check_kind(data: Mapping[str, Any], *, file: str, valid: Sequence[str]) -> str:
    """The kind of a scenario.

    Parameters
    ----------
    valid
        Kinds that whoever asks can answer.

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
    if isinstance(kind, str) and kind in VERBS:
        raise InputError(
            f"{found}; valid here is {words}; `forecache {VERBS[kind]}` is for {kind}."
        )
    if not isinstance(kind, str):
        raise InputError(f"{found}; valid is {_all_kinds()}.")
    close = difflib.get_close_matches(kind.lower(), VERBS, n=1)
    guess = f"did you mean {close[0]!r}? Valid is" if close else "valid is"
    raise InputError(f"{found}; {guess} {_all_kinds()}.")


def _all_kinds() -> str:
    verbs: dict[str, list[str]] = {}
    for kind, verb in VERBS.items():
        verbs.setdefault(verb, []).append(kind)
    return "; ".join(f"{', '.join(kinds)} (`forecache {verb}`)" for verb, kinds in verbs.items())
