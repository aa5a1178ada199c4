"""Raw pointers for compiled inner loops.

An array handed from one compiled function to another is reference-counted and checked for negative
indices at every access; a pointer is neither, which about halves the cost of an event. The caller
keeps the array alive and indices inside it.
"""

from typing import Any

from numba import types
from numba.extending import intrinsic


@intrinsic
def pointer(typing_context: Any, array: Any) -> Any:
    """The address of a contiguous array's first element, indexable in compiled code."""
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), generate
