"""Bodies compiled by numba."""

import numba
import numpy as np
from numba import types
from numba.core import cgutils, sigutils
from numba.extending import intrinsic
from numba.np import numpy_support

from ._compiled import VIEW
from ._thalweg import Compiled

SIGNATURE = types.int32(types.voidptr, types.voidptr, types.uintp, types.voidptr)

WORD = np.dtype(np.intp).itemsize
WORDS = VIEW.itemsize // WORD
"""A view is read as an array of words."""


@intrinsic
def _pointer(typing, address):
    """Returns an address as a pointer."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


def _array(kind, index):
    """Returns the code of a view as an array of this type."""

    def word(field, d=0):
        return f"words[{WORDS * index + VIEW.fields[field][1] // WORD + d}]"

    shape = ", ".join(word("shape", d) for d in range(kind.ndim))
    strides = ", ".join(f"{word('strides', d)} * {kind.dtype.bitwidth // 8}" for d in range(kind.ndim))
    first = f"pointer({word('data')})"
    if kind.layout == "C":
        return f"carray({first}, ({shape},), dtype{index})"
    return f"as_strided(carray({first}, (1,), dtype{index}), ({shape},), ({strides},))"


def compile_body(function, kinds, name):
    """Compiles a function of arrays as a body."""
    kinds, _ = sigutils.normalize_signature(f"void({', '.join(kinds)})" if kinds else "void()")
    for kind in kinds:
        if not isinstance(kind, types.Array):
            raise TypeError(f"cannot compile a body with a parameter of {kind}: it is no array; try `float64[:]`")
    scope = {
        "as_strided": np.lib.stride_tricks.as_strided,
        "carray": numba.carray,
        "compiled": numba.njit(types.void(*kinds))(function),
        "intp": np.intp,
        "pointer": _pointer,
    }
    lines = [
        "def body(context, views, count, argument):",
        f"    if count != {len(kinds)}:",
        "        return 1",
        f"    words = carray(views, ({WORDS * len(kinds)},), intp)",
    ]
    for index, kind in enumerate(kinds):
        scope[f"dtype{index}"] = numpy_support.as_dtype(kind.dtype).type
        lines.append(f"    x{index} = {_array(kind, index)}")
    lines += [f"    compiled({', '.join(f'x{index}' for index in range(len(kinds)))})", "    return 0"]
    exec("\n".join(lines), scope)  # numba needs a function of as many variables as there are arrays
    return Compiled(numba.cfunc(SIGNATURE)(scope["body"]), name=name or function.__name__)
