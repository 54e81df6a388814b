"""NumPy's arrays in Thalweg's tasks, and back: python3 roundtrip.py LIBRARY

Nothing is copied in either direction. A consumer that takes a capsule's tensor renames the capsule, as DLPack requires.
"""

import ctypes
import sys
import weakref

import numpy as np

library = ctypes.CDLL(sys.argv[1])  # not PyDLL: see lib.rs
library.thalweg_scale_rows.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
library.thalweg_row_sums.argtypes = library.thalweg_scale_rows.argtypes
library.thalweg_row_sums.restype = ctypes.c_void_p

python = ctypes.pythonapi
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

NEW, USED = b"dltensor", b"used_dltensor"


def taken(array):
    """Returns the tensor of an array; it belongs to the caller."""
    capsule = array.__dlpack__()
    tensor = python.PyCapsule_GetPointer(capsule, NEW)
    python.PyCapsule_SetName(capsule, USED)
    return tensor


class Given:
    """A tensor created by the library, for `numpy.from_dlpack`."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return (1, 0)  # host memory

    def __dlpack__(self, **_):
        capsule = python.PyCapsule_New(self.tensor, NEW, None)
        self.tensor = None
        return capsule


def scale_rows(array):
    words = ctypes.create_string_buffer(400)
    if library.thalweg_scale_rows(taken(array), words, len(words)) != 0:
        raise ValueError(words.value.decode())


def row_sums(array):
    words = ctypes.create_string_buffer(400)
    sums = library.thalweg_row_sums(taken(array), words, len(words))
    if sums is None:
        raise ValueError(words.value.decode())
    return np.from_dlpack(Given(sums))


def refused(array, *expected):
    references = sys.getrefcount(array)
    error = None
    try:
        row_sums(array)
    except ValueError as raised:
        error = str(raised)
    assert error and all(words in error for words in expected), f"{array.dtype}, {array.shape}: {error}"
    assert sys.getrefcount(array) == references, "a rejected array is released"


# In place, even if rows are not adjacent; nothing around them is touched.
whole = np.arange(60, dtype=np.float64).reshape(6, 10)
part, expected = whole[1:5, 2:7], whole.copy()
expected[1:5, 2:7] *= np.arange(4.0)[:, None]
for array in (part, whole):
    references = sys.getrefcount(array)
    scale_rows(array)
    assert sys.getrefcount(array) == references, "the array is released when the tasks have ended"
    if array is part:
        assert (whole == expected).all()
assert (whole == expected * np.arange(6.0)[:, None]).all()

# A result of the library lives exactly as long as NumPy uses it.
matrix = np.random.default_rng(7).random((300, 70))
sums = row_sums(matrix)
assert sums.dtype == np.float64 and np.allclose(sums, matrix.sum(axis=1))
view = sums[10:20]
gone = weakref.ref(sums)
del sums
assert np.allclose(view, matrix.sum(axis=1)[10:20])
del view
assert gone() is None
assert row_sums(np.zeros((0, 5))).shape == (0,)

refused(matrix.astype(np.float32), "float32", "float64")
refused(matrix.astype(np.int64), "int64", "float64")
refused(matrix.T, "strides")
refused(matrix[0], "1 dimensions", "2")
refused(matrix[::-1], "strides")
print("VERIFIED")
