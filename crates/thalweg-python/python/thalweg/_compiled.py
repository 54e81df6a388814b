"""Compiled bodies: their signature, and a decorator for numba."""

import ctypes

import numpy as np

BODY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
"""The ctypes type of a compiled body: `int body(void *context, const tw_view *views, size_t count, void *argument)`."""

VIEW = np.dtype(
    [
        ("data", np.uintp),
        ("type", np.uint32),
        ("ndim", np.uintp),
        ("shape", np.uintp, 4),
        ("strides", np.uintp, 4),
        ("count", np.uintp),
        ("element_bytes", np.uintp),
        ("is_writable", np.bool_),
    ],
    align=True,
)
"""The layout of `tw_view`. `strides` are in elements."""


def numba_body(*types, name=None):
    """Compiles a function of arrays with numba, as a body that runs without the GIL.

    There is a numba type for each access, such as `"float64[:, :]"`; `"float64[::1]"` promises that the elements are
    contiguous. The function must not raise: numba ignores exceptions in such functions.

    >>> import numpy as np, thalweg as tw
    >>> @tw.numba_body("float64[:]")
    ... def double(x):
    ...     for i in range(x.shape[0]):
    ...         x[i] *= 2.0
    >>> with tw.Runtime("2:CPU:1") as rt:
    ...     x = rt.data(np.ones(100))
    ...     for part in x.blocks(10):
    ...         task = rt.task(part.inout())(double)
    ...     print(x.read().sum())
    200.0
    """
    from ._numba import compile_body

    return lambda function: compile_body(function, types, name)
