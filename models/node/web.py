"""The compiled node as a WebAssembly module (`native/web/`): the numbers of a run, and its results.

`layout.py` fills the memory of a run from Python. A browser has no Python: there C code does the
same, from the numbers of a run in one row, in the order that is written here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from forecache.sim.native.toolchain import build_wasm

from .layout import BY_CODE, RECORDS, SOURCES
from .policies import POLICIES
from .setup import NodeSetup, NodeTimes

WEB_POLICIES = tuple(name for name, policy in POLICIES.items() if not policy.locks_items)
"""Policies by the number that `simulate` takes: the order of `policies` in `web.c`."""

_FIELDS = list(RECORDS["node"].names or ())

HEAD = tuple(_FIELDS[: _FIELDS.index("client_rows")])
"""What a row begins with: fields of `NodeTimes` and `NodeSetup`, in the order of `node.h`."""

COUNTERS = tuple(_FIELDS[_FIELDS.index("completions") : _FIELDS.index("active_threads") + 1])
"""What `counters` points to."""

CODE_NUMBERS = tuple(BY_CODE)
"""Of each command code: these and then its stalls."""

TABLES = ("jitter", "interruption_ps", "wake_latency_ps", "code_by_draw", "prefetch_by_keys_ps")
"""Between the head and the codes."""


def build_module(to: Path) -> None:
    """Compile the node to WebAssembly; needs the package ziglang.

    Raises
    ------
    OSError
        It is missing, or the compiler fails.
    """
    build_wasm(SOURCES, to)


def numbers_of_run(times: NodeTimes, setup: NodeSetup) -> np.ndarray:
    """(words,) int64: what a run needs to be told, in one row.

    Parameters
    ----------
    setup
        With the threads that watch sockets (`policies.under_policy`).
    """
    told = times._asdict() | setup._asdict()
    codes = [
        [*(getattr(times, BY_CODE[name])[code] for name in CODE_NUMBERS), *times.stall_ps[code]]
        for code in range(len(times.parse_by_code_ps))
    ]
    parts = [[told[name] for name in HEAD], *(told[name] for name in TABLES), *codes]
    return np.concatenate([np.asarray(part, np.int64) for part in parts])
