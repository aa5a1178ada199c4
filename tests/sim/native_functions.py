"""The C functions of `sim/native/`, called one by one from a library made for tests."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from forecache.sim.native import library, pointer

_LIBRARY = library(Path(__file__).parent / "native")


def _function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    function = getattr(_LIBRARY, name)
    function.restype = result
    function.argtypes = arguments
    return function


_INT, _WORD, _DOUBLE, _POINTER = ctypes.c_int64, ctypes.c_uint32, ctypes.c_double, ctypes.c_void_p
_ADDRESS = (_INT, _INT, _INT, _INT, _INT)

_advance = _function("call_advance", _INT, _POINTER, _INT, _INT)
_next_key = _function("call_next_key", _INT, _POINTER)
_time_of = _function("call_time_of", _INT, _POINTER, _INT)
_agent_of = _function("call_agent_of", _INT, _POINTER, _INT)
_planned = _function("call_planned", _INT, _POINTER, _INT)
_event_time = _function("call_event_time", _INT, _POINTER, _INT)
_record_many = _function("call_record_many", None, _POINTER, _INT, _INT)
_draw4 = _function("call_draw4", None, *_ADDRESS, _POINTER)
_draw4_each = _function("call_draw4_each", None, *_ADDRESS, _POINTER)

histogram_words = _function("histogram_words", _INT)
bucket_of = _function("call_bucket_of", _INT, _INT)
uniform = _function("call_uniform", _DOUBLE, *_ADDRESS)
to_unit = _function("call_to_unit", _DOUBLE, _WORD)
exponential_ps = _function("call_exponential_ps", _INT, _DOUBLE, _DOUBLE)


def advance(calendar: np.ndarray, agent: int, time_ps: int) -> int:
    """Set an agent's next event; the key of the next event of all."""
    return int(_advance(pointer(calendar), agent, time_ps))


def next_key(calendar: np.ndarray) -> int:
    """The key of the next event."""
    return int(_next_key(pointer(calendar)))


def next_event(calendar: np.ndarray) -> tuple[int, int]:
    """Time in ps and agent of the next event."""
    key = next_key(calendar)
    return int(_time_of(pointer(calendar), key)), int(_agent_of(pointer(calendar), key))


def planned(calendar: np.ndarray, agent: int) -> int:
    """The time of an agent's next event in ps."""
    return int(_planned(pointer(calendar), agent))


def event_time(calendar: np.ndarray, agent: int) -> int:
    """The same, and `INFINITY_PS` for an event that never happens."""
    return int(_event_time(pointer(calendar), agent))


def record_many(counts: np.ndarray, value_ps: int, times: int) -> None:
    """Count one value several times in the array of a histogram."""
    _record_many(pointer(counts), value_ps, times)


def draw4(*address: int) -> tuple[int, ...]:
    """The words of an address."""
    words = np.zeros(4, np.uint32)
    _draw4(*address, pointer(words))
    return tuple(words.tolist())


def draw4_each(*address: int) -> list[tuple[int, ...]]:
    """The words of an address, whose index is a multiple of four, and of the three after it."""
    words = np.zeros((4, 4), np.uint32)
    _draw4_each(*address, pointer(words))
    return [tuple(each) for each in words.T.tolist()]
