"""Waiting for the work of another library on a stream."""

import ctypes

CUDA, ROCM = 2, 10
"""DLPack's numbers of device types."""

CALLS = {
    CUDA: ("cuStreamSynchronize", ["libcuda.so.1"]),
    ROCM: ("hipStreamSynchronize", [f"libamdhip64.so.{n}" for n in range(9, 4, -1)]),
}


def synchronize(device_type, stream):
    """Waits for all work on a stream. Returns a text that says what has failed, or `None`."""
    name, libraries = CALLS[device_type]
    for library in libraries:
        try:
            call = getattr(ctypes.CDLL(library), name)
        except OSError:
            continue
        code = call(ctypes.c_void_p(stream))
        return f"`{name}` has returned {code}" if code else None
    return f"{libraries[0]} cannot be opened"
