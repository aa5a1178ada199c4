"""C library calls and atomic operations for compiled measurement loops.

The C functions are resolved in the running process, so nothing is compiled or linked here, and
compiled code that uses them can be cached on disk.
"""

from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_int32, _uintp, _intp = types.int32, types.uintp, types.intp

c_clock_gettime: Any = types.ExternalFunction("clock_gettime", _int32(_int32, _uintp))
c_getppid: Any = types.ExternalFunction("getppid", _int32())
c_send: Any = types.ExternalFunction("send", _intp(_int32, _uintp, _uintp, _int32))
c_recv: Any = types.ExternalFunction("recv", _intp(_int32, _uintp, _uintp, _int32))
c_epoll_wait: Any = types.ExternalFunction("epoll_wait", _int32(_int32, _uintp, _int32, _int32))

CLOCK_MONOTONIC = 1
CLOCK_THREAD_CPUTIME_ID = 3


@numba.njit(types.int64(types.int32, types.int64[::1]), cache=True, nogil=True)
def now_ns(clock: int, timespec: Any) -> int:
    """A clock in nanoseconds; `timespec` is scratch space of two int64 (seconds, nanoseconds)."""
    c_clock_gettime(clock, timespec.ctypes.data)
    return timespec[0] * 1_000_000_000 + timespec[1]


@intrinsic
def _compare_exchange(typingctx: Any, array: Any, index: Any, expected: Any, new: Any) -> Any:  # noqa: ARG001
    """`array[index] = new` if it holds `expected`, in one atomic step; True when it did.

    Sequentially consistent. `array` is a contiguous int64 array.
    """
    signature = types.boolean(array, types.intp, types.int64, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        structure = context.make_array(sig.args[0])(context, builder, args[0])
        pointer = builder.gep(structure.data, [args[1]])
        pointer = builder.bitcast(pointer, ir.IntType(64).as_pointer())
        outcome = builder.cmpxchg(
            pointer, args[2], args[3], ordering="seq_cst", failordering="seq_cst"
        )
        done = builder.extract_value(outcome, 1)
        return builder.zext(done, cgutils.bool_t) if done.type != cgutils.bool_t else done

    return signature, codegen


# Called from compiled code without the typing context, which the decorator supplies.
compare_exchange: Any = _compare_exchange
