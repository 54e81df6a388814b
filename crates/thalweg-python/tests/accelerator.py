"""Calls of CUDA's driver and of HIP, as far as the tests need them: arrays in the place of CuPy's."""

import ctypes
import os

import numpy as np

KIND = os.environ.get("THALWEG_TEST_UNITS", "OPENCL")
"""The kind of device: CUDA and HIP on the library's stand-in drivers, by `cargo test --test standin`."""

IS_HIP = KIND == "HIP"
NAMES = ["libcuda.so.1"] if not IS_HIP else [f"libamdhip64.so.{n}" for n in range(9, 4, -1)]
ADDRESS = ctypes.c_uint64


def load():
    for name in NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    raise OSError(f"none of {NAMES} can be opened")


class Driver:
    """The interface, with the device bound to this thread."""

    def __init__(self):
        self.library = load()
        if IS_HIP:
            self.call("hipSetDevice", 0)
        else:
            self.context = ctypes.c_void_p()
            self.call("cuInit", 0)
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
            self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        assert code == 0, f"{name}: error {code}"

    def end(self):
        if not IS_HIP:
            self.call("cuDevicePrimaryCtxRelease_v2", 0)

    def allocate(self, size):
        address = ADDRESS()
        self.call("hipMalloc" if IS_HIP else "cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address):
        self.call("hipFree" if IS_HIP else "cuMemFree_v2", ADDRESS(address))

    def stream(self):
        stream = ctypes.c_void_p()
        self.call("hipStreamCreateWithFlags" if IS_HIP else "cuStreamCreate", ctypes.byref(stream), 1)
        return stream.value

    def destroy(self, stream):
        self.call("hipStreamDestroy" if IS_HIP else "cuStreamDestroy_v2", ctypes.c_void_p(stream))

    def synchronize(self, stream=None):
        self.call("hipStreamSynchronize" if IS_HIP else "cuStreamSynchronize", ctypes.c_void_p(stream))

    def copy(self, to, source, size, kind, stream=None):
        """Enqueues a copy. `kind` is `HtoD`, `DtoH` or `DtoD`."""
        to, source, size, stream = ADDRESS(to), ADDRESS(source), ctypes.c_size_t(size), ctypes.c_void_p(stream)
        if IS_HIP:
            self.call("hipMemcpyAsync", to, source, size, {"HtoD": 1, "DtoH": 2, "DtoD": 3}[kind], stream)
        else:
            self.call(f"cuMemcpy{kind}Async_v2", to, source, size, stream)

    def read(self, address, shape, dtype="float64"):
        """Returns a copy of an array without gaps."""
        found = np.empty(shape, dtype)
        self.copy(found.ctypes.data, address, found.nbytes, "DtoH")
        self.synchronize()
        return found


class Foreign:
    """An array in device memory, like that of another library."""

    def __init__(self, driver, values, stream=None):
        self.driver, self.values = driver, np.ascontiguousarray(values)
        self.address = driver.allocate(self.values.nbytes)
        driver.copy(self.address, self.values.ctypes.data, self.values.nbytes, "HtoD", stream)
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": self.values.shape,
            "typestr": self.values.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "stream": stream,
        }

    def read(self):
        return self.driver.read(self.address, self.values.shape, self.values.dtype)

    def __del__(self):
        self.driver.free(self.address)
