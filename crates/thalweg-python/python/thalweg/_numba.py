"""Bodies compiled by numba."""

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import numpy_support

from ._compiled import VIEW
from ._thalweg import Compiled

SIGNATURE = types.int32(types.voidptr, types.voidptr, types.uintp, types.voidptr)


@intrinsic
def _pointer(typing, address):
    """Returns an address as a pointer."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


def _array(kind):
    """Returns the code of a view as an array of this type."""
    shape = ", ".join(f"np.intp(v['shape'][{d}])" for d in range(kind.ndim))
    strides = ", ".join(f"np.intp(v['strides'][{d}] * v['element_bytes'])" for d in range(kind.ndim))
    first = "pointer(v['data'])"
    if kind.layout == "C":
        return f"carray({first}, ({shape},), dtype)"
    return f"as_strided(carray({first}, (np.intp(1),), dtype), ({shape},), ({strides},))"


def compile_body(function, kinds, name):
    """Compiles a function of arrays as a body."""
    kinds = [numba.typeof(kind) if isinstance(kind, np.ndarray) else numba.core.sigutils._parse_signature_string(kind)
             if isinstance(kind, str) else kind for kind in kinds]
    compiled = numba.njit(types.void(*kinds))(function)
    scope = {"carray": numba.carray, "as_strided": np.lib.stride_tricks.as_strided, "np": np, "pointer": _pointer,
             "compiled": compiled, "VIEW": numpy_support.from_dtype(VIEW)}
    lines = ["def body(context, views, count, argument):", f"    if count != {len(kinds)}:", "        return 1",
             "    found = carray(views, (count,), VIEW)"]
    for index, kind in enumerate(kinds):
        scope[f"dtype{index}"] = kind.dtype
        lines += [f"    v = found[{index}]", f"    x{index} = {_array(kind).replace('dtype', f'dtype{index}')}"]
    lines += [f"    compiled({', '.join(f'x{index}' for index in range(len(kinds)))})", "    return 0"]
    exec("\n".join(lines), scope)
    return Compiled(numba.cfunc(SIGNATURE)(scope["body"]), name=name or function.__name__)
