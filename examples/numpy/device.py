"""GPU arrays in Thalweg's tasks, and back: python3 device.py LIBRARY

`DeviceArray` replaces CuPy's arrays, as far as DLPack sees them. It needs nothing but calls of CUDA's driver.
"""

import ctypes
import sys
from ctypes import POINTER, Structure, byref, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint64, c_void_p

library = ctypes.CDLL(sys.argv[1])
library.thalweg_twice_on_gpu.argtypes = [c_void_p, ctypes.c_char_p, c_size_t]
library.thalweg_twice_on_gpu.restype = c_void_p
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, f"{name}: error {code}"


class DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class DLManagedTensor(Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, POINTER(DLManagedTensor))
DLManagedTensor._fields_ = [("dl_tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", Deleter)]

context = c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", byref(context), 0)


class DeviceArray:
    """Doubles in device memory; writes to them may still be in flight when a tensor of the array is handed out."""

    given = {}  # keeps alive what tensors refer to

    def __init__(self, values):
        call("cuCtxSetCurrent", context)
        self.address, self.len = c_uint64(), len(values)
        call("cuMemAlloc_v2", byref(self.address), c_size_t(8 * self.len))
        self.source = c_void_p()
        call("cuMemHostAlloc", byref(self.source), c_size_t(8 * self.len), 0)
        ctypes.memmove(self.source, (c_double * self.len)(*values), 8 * self.len)
        call("cuMemcpyHtoDAsync_v2", self.address, self.source, c_size_t(8 * self.len), None)

    def tensor(self, **changes):
        """Returns a tensor of this array; the array outlives it."""
        shape = (c_int64 * 1)(self.len)
        fields = dict(data=self.address.value, device_type=2, device_id=0, ndim=1, code=2, bits=64, lanes=1, shape=shape)
        managed = DLManagedTensor(DLTensor(**{**fields, **changes}), None, freed)
        address = ctypes.addressof(managed)
        self.given[address] = (self, managed, shape)
        return address

    def __del__(self):
        call("cuCtxSetCurrent", context)
        call("cuStreamSynchronize", None)
        call("cuMemFree_v2", self.address)
        call("cuMemFreeHost", self.source)


@Deleter
def freed(managed):
    del DeviceArray.given[ctypes.addressof(managed.contents)]


def values(address, count):
    """Returns numbers in device memory, copied through the host."""
    call("cuCtxSetCurrent", context)
    found = (c_double * count)()
    call("cuMemcpyDtoHAsync_v2", found, c_uint64(address), c_size_t(8 * count), None)
    call("cuStreamSynchronize", None)
    return list(found)


def twice(tensor):
    words = ctypes.create_string_buffer(400)
    result = library.thalweg_twice_on_gpu(tensor, words, len(words))
    if result is None:
        raise ValueError(words.value.decode())
    return ctypes.cast(result, POINTER(DLManagedTensor))


numbers = [0.5 * n for n in range(1000)]
result = twice(DeviceArray(numbers).tensor())
assert not DeviceArray.given, "the array is released when the tasks have ended"
tensor = result.contents.dl_tensor
assert (tensor.device_type, tensor.device_id, tensor.ndim, tensor.shape[0], tensor.code, tensor.bits) == (2, 0, 1, 1000, 2, 64)
assert values(tensor.data, 1000) == [2.0 * n for n in numbers]

# A result of the library can be its input, which it then releases.
again = twice(ctypes.addressof(result.contents))
assert values(again.contents.dl_tensor.data, 1000) == [4.0 * n for n in numbers]
again.contents.deleter(again)

for changes, expected in [(dict(code=0), "int64"), (dict(device_id=7), "CUDA device 7"), (dict(data=64), "no such memory")]:
    error = None
    try:
        twice(DeviceArray([1.0]).tensor(**changes))
    except ValueError as raised:
        error = str(raised)
    assert error and expected in error, f"{changes}: {error}"
    assert not DeviceArray.given, "a rejected array is released"

call("cuDevicePrimaryCtxRelease_v2", 0)
print("VERIFIED")
