"""The memory of a cluster's load, as `native/cluster.h` declares it, and the code that works on it.

A record's fields are those of the C structure, by the same names; the header says what they mean.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from forecache.sim.native import Layout, library

SOURCES = Path(__file__).parent / "native"
_LAYOUT = Layout(SOURCES / "cluster.h")
RECORDS = _LAYOUT.dtypes
CONSTANTS = _LAYOUT.constants

_INTEGER, _NUMBER, _ADDRESS = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_ARGUMENTS = {
    "advance_load": [_ADDRESS],
    "draw_arrivals": [*[_INTEGER] * 3, _ADDRESS, _INTEGER, _ADDRESS],
    "advance_queues": [_ADDRESS, *[_INTEGER] * 2, _NUMBER, *[_INTEGER] * 2, *[_ADDRESS] * 6],
}


@cache
def compiled() -> ctypes.CDLL:
    """The functions of `native/*.c`."""
    code = library(SOURCES)
    for name, arguments in _ARGUMENTS.items():
        function = getattr(code, name)
        function.argtypes, function.restype = arguments, None
    return code
