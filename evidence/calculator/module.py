"""The compiled node as a WebAssembly module: the numbers of a run, and its results.

`models/node/layout.py` fills the memory of a run from Python. A browser has no Python: there C code
does the same, from the numbers of a run in one row, in the order that is written here.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np

from forecache.models.node.layout import BY_CODE, RECORDS, SOURCES
from forecache.models.node.policies import POLICIES
from forecache.models.node.setup import NodeSetup, NodeTimes
from forecache.sim.native.toolchain import FLAGS, ROOT, run

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

_WASM_FLAGS = ("-target", "wasm32-wasi", "-mexec-model=reactor", "-s", "-Wl,--no-entry")


def build_module(to: Path) -> None:
    """Compile the node to a WebAssembly module that imports nothing; needs the package ziglang.

    What `web.c` marks as exported can be called.

    Raises
    ------
    OSError
        It is missing, or the compiler fails; with what it said.
    """
    if importlib.util.find_spec("ziglang") is None:
        raise OSError("WebAssembly needs the Python package ziglang: pip install ziglang")
    units = sorted([*SOURCES.glob("*.c"), *(SOURCES / "web").glob("*.c")])
    flags = [flag for flag in FLAGS if flag != "-fPIC"]
    command = [sys.executable, "-m", "ziglang", "cc", *_WASM_FLAGS, *flags, "-I", str(ROOT)]
    run([*command, "-o", str(to), *map(str, units)])


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
