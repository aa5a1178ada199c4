"""libc for compiled code: sockets and epoll, with the constants and layouts of Linux.

The functions are resolved by name in the running process, so nothing is built. Pass the address
of an array as `array.ctypes.data`.
"""

import platform
from typing import Any

import numpy as np
from numba import njit, types

_int32, _intp, _uintp = types.int32, types.intp, types.uintp

c_recv: Any = types.ExternalFunction("recv", _intp(_int32, _uintp, _uintp, _int32))
c_send: Any = types.ExternalFunction("send", _intp(_int32, _uintp, _uintp, _int32))
c_epoll_create1: Any = types.ExternalFunction("epoll_create1", _int32(_int32))
c_epoll_ctl: Any = types.ExternalFunction("epoll_ctl", _int32(_int32, _int32, _int32, _uintp))
c_epoll_wait: Any = types.ExternalFunction("epoll_wait", _int32(_int32, _uintp, _int32, _int32))
c_close: Any = types.ExternalFunction("close", _int32(_int32))
c_memcpy: Any = types.ExternalFunction("memcpy", _uintp(_uintp, _uintp, _uintp))
_c_clock_gettime: Any = types.ExternalFunction("clock_gettime", _int32(_int32, _uintp))
_c_errno_location: Any = types.ExternalFunction("__errno_location", _uintp())

# struct epoll_event is {uint32 events; uint64 data}. The kernel packs it on x86-64 (12 bytes, data
# after 4) and aligns it elsewhere (16 bytes, data after 8): linux/eventpoll.h, EPOLL_PACKED.
_PACKED = platform.machine() in ("x86_64", "AMD64")
EVENT_WORDS = 3 if _PACKED else 4
DATA_WORD = 1 if _PACKED else 2

EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP = 0x1, 0x4, 0x8, 0x10
CTL_ADD, CTL_MOD = 1, 3
EINTR, EAGAIN = 4, 11
MSG_NOSIGNAL = 0x4000
_CLOCK_MONOTONIC = 1


@njit(types.int64(types.int64[::1]), nogil=True, cache=True)
def now_ns(scratch: np.ndarray) -> int:
    """CLOCK_MONOTONIC in ns; `scratch` has room for a struct timespec: two int64."""
    _c_clock_gettime(_CLOCK_MONOTONIC, scratch.ctypes.data)
    return int(scratch[0] * 1_000_000_000 + scratch[1])


@njit(types.int64(types.int64[::1]), nogil=True, cache=True)
def last_error(scratch: np.ndarray) -> int:
    """errno of this thread, an int of 32 bits."""
    scratch[0] = 0
    c_memcpy(scratch.ctypes.data, _c_errno_location(), 4)
    # Little-endian machines have it in the low half of the word, big-endian ones in the high half.
    return int(scratch[0] if scratch[0] < 1 << 32 else scratch[0] >> 32)
