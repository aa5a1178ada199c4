"""The compiled measurement loops, `native/*.c`: how they are called, on one thread or on several.

Calls release the GIL. Arrays are contiguous and of the type that the C function declares.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from forecache.sim.native import library

SOURCES = Path(__file__).parent / "native"

CLOCK_MONOTONIC = time.CLOCK_MONOTONIC
CLOCK_THREAD_CPUTIME_ID = time.CLOCK_THREAD_CPUTIME_ID

Word = ctypes.c_int64
Unsigned = ctypes.c_uint64


def array_of(dtype: Any) -> Any:
    """The type of an argument that is a contiguous array of numbers of this type."""
    return np.ctypeslib.ndpointer(dtype=dtype, flags="C_CONTIGUOUS")


Words = array_of(np.int64)
UnsignedWords = array_of(np.uint64)
Descriptors = array_of(np.int32)
Bytes = array_of(np.uint8)


@cache
def loop(name: str, *arguments: Any) -> Callable[..., int]:
    """A function of `native/*.c` that takes arguments of these types and returns an int64."""
    function = library(SOURCES)[name]
    function.argtypes = arguments
    function.restype = Word
    return function


def run_side_by_side(runs: Iterable[Callable[[], object]]) -> None:
    """Run functions in threads of their own until all have ended."""
    threads = [threading.Thread(target=run, daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
