"""Kernels from text, bodies with a stream, and arrays in device memory."""

import concurrent.futures
import gc
import os
import threading

import numpy as np
import pytest

import thalweg as tw
from accelerator import IS_HIP, KIND, Driver, Foreign

UNITS = f"1:CPU:1,1:{KIND}:1"
try:
    tw.Runtime(UNITS).shutdown()
except tw.Refused as refusal:
    if KIND.lower() in os.environ.get("THALWEG_REQUIRE", ""):
        raise
    pytest.skip(str(refusal), allow_module_level=True)

on_streams = pytest.mark.skipif(KIND == "OPENCL", reason="for devices of CUDA and HIP")
N = 1000
TEXT = """
KERNEL(64, 1, 1) axpy(double a, IN(double, x, n), INOUT(double, y, n), int n)
{ REGION(x); REGION(y); int i = GLOBAL_ID(0); if (i < n) y[i] += a * x[i]; }
KERNEL(8, 8, 1) add(INOUT(float, y, [m][n]), int m, int n, float a, INT64 b, unsigned c, UINT64 d)
{ REGION(y); int j = GLOBAL_ID(0), i = GLOBAL_ID(1); if (i < m && j < n) y[i * n + j] += a + b + c + d; }
"""


@pytest.fixture
def rt():
    with tw.Runtime(UNITS) as rt:
        yield rt


@pytest.fixture
def driver():
    driver = Driver()
    yield driver
    gc.collect()
    driver.end()


@pytest.fixture(scope="module")
def axpy():
    return tw.Kernel("axpy.cl", TEXT, "axpy")


def launch(axpy, a=3.0, n=N):
    return axpy.launch(n, a, tw.nth(0), tw.nth(1), n)


def add(x, y):
    y += 3 * x


def test_kernels_run_on_devices(rt, axpy):
    x, y = rt.data(np.arange(N, dtype=float)), rt.zeros(N)
    for _ in range(3):
        task = rt.task(x.input(), y.inout())(gpu=[launch(axpy), launch(axpy)])
        either = rt.task(x.input(), y.inout())(add, gpu=launch(axpy))  # the result is the same on each unit
    assert (task.name, either.name, task.result(), either.result()) == ("axpy", "add", None, None)
    np.testing.assert_array_equal(y.read(), 27 * np.arange(N))
    assert rt.statistics().tasks[1] >= 3
    z = rt.zeros((10, 6), "float32")
    kernel = tw.Kernel("axpy.cl", TEXT, "add")
    numbers = [np.float32(0.5), 2**40, np.uint32(7), np.uint64(9)]
    rt.task(z[2:6].inout(), name="box")(gpu=kernel.launch((6, 4), tw.nth(0), 4, 6, *numbers))
    expected = np.zeros((10, 6), "float32")
    expected[2:6] = np.float32(2**40 + 16.5)
    np.testing.assert_array_equal(z.read(), expected)


def test_launches_that_do_not_fit_fail_their_tasks(rt, axpy):
    x, y = rt.zeros(N), rt.zeros(N)
    for access, wrong, part in [
        (y.inout(), launch(axpy, np.float32(3)), r"argument 1 \(`a`\) is a number of float32"),
        (y.inout(), launch(axpy, n=N + 1), "1001"),
        (y.inout(), axpy.launch(N, 1.0), "4 parameters, and 1 are given"),
        (y.input(), launch(axpy), "only reads"),
    ]:
        task = rt.task(x.input(), access)(gpu=wrong)
        with pytest.raises(tw.TaskError, match=part):
            task.result()
        y.write(0)
    rt.wait()
    assert y.read().sum() == 0


def test_bad_launches_are_refused(rt, axpy):
    x = rt.zeros(N)
    for error, call, part in [
        (tw.Refused, lambda: tw.Kernel("axpy.cl", "KERNEL(64, 1, 1) axpy(double)", "axpy"), "axpy.cl"),
        (tw.Refused, lambda: tw.Kernel("axpy.cl", TEXT, "other"), "`other`"),
        (tw.Refused, lambda: rt.task(x.input())(gpu=launch(axpy)), "no access"),
        (TypeError, lambda: rt.task(x.input())(gpu=axpy), "no launch"),
        (TypeError, lambda: rt.task(x.input())(gpu=3), "no launch"),
        (TypeError, lambda: rt.task(x.input())(), "no body"),
        (TypeError, lambda: rt.task(x.input())(cuda=3), "callable"),
        (TypeError, lambda: axpy.launch(N, "a"), "no number"),
        (TypeError, lambda: axpy.launch(N, True), "no number"),
        (TypeError, lambda: axpy.launch(N, np.float16(2)), "no number"),
        (OverflowError, lambda: axpy.launch(N, 2**63), None),
        (OverflowError, lambda: tw.nth(-1), None),
        (ValueError, lambda: axpy.launch(-1), "threads"),
        (ValueError, lambda: axpy.launch((1, 2, 3, 4)), "threads"),
    ]:
        with pytest.raises(error, match=part) as caught:
            call()
        assert error is OverflowError or "try " in str(caught.value)
    with tw.Runtime("1:CPU:1") as cores:
        with pytest.raises(tw.Refused, match="try"):
            cores.task(cores.zeros(N).input(), cores.zeros(N).inout())(gpu=launch(axpy))


def test_launches_that_have_not_begun_are_cancelled(rt, axpy):
    x, y, gate = rt.zeros(N), rt.zeros(N), threading.Event()
    rt.task(y.inout())(lambda y: gate.wait(60) and None)
    task = rt.task(x.input(), y.inout())(gpu=launch(axpy))
    assert task.cancel() and task.cancelled()
    gate.set()
    with pytest.raises(concurrent.futures.CancelledError):
        task.result()
    assert y.shape == (N,) and not task.running()


def test_bodies_for_other_devices_are_refused(rt):
    x, other = rt.zeros(4), "cuda" if KIND != "CUDA" else "hip"
    with pytest.raises(tw.Refused, match="try"):
        rt.task(x.inout())(**{other: lambda stream, x: None})
    with pytest.raises(tw.Refused, match="try"):
        x.inout().on_device(5)


@on_streams
def test_body_enqueues_work_on_its_stream(rt, driver):
    kept = []

    def copy(stream, x, y):
        ours, theirs = x.__cuda_array_interface__, y.__cuda_array_interface__
        assert ours["stream"] == stream.handle and stream.__cuda_stream__() == (0, stream.handle)
        assert (ours["shape"], ours["typestr"], ours["version"]) == ((N,), "<f8", 3)
        assert (ours["data"][1], theirs["data"][1], stream.device) == (True, False, 0)
        assert "dltensor" in repr(y.__dlpack__(stream=stream.handle))
        for wrong in [None, 1, stream.handle + 8]:
            with pytest.raises(BufferError, match="stream"):
                y.__dlpack__(stream=wrong)
        driver.copy(theirs["data"][0], ours["data"][0], 8 * N, "DtoD", stream.handle)
        kept.append(y)
        return "copied"

    body = {KIND.lower(): copy}
    x, y = rt.data(np.arange(N, dtype=float)), rt.zeros(N)
    assert rt.task(x.input(), y.output())(**body).result() == "copied"
    np.testing.assert_array_equal(y.read(), np.arange(N))
    with pytest.raises(tw.Refused, match="body has returned"):
        kept[0].__cuda_array_interface__

    def strided(stream, a):
        found = a.__cuda_array_interface__
        kept.append((found["shape"], found["strides"]))
        raise KeyError("missing")

    task = rt.task(rt.zeros((4, 6, 5))[1:3, 2].inout())(**{KIND.lower(): strided})
    assert isinstance(task.exception(), KeyError)  # raised, it would keep this frame and with it the runtime
    assert kept[1][0] == (2, 5) and kept[1][1][1] == 8


@on_streams
def test_region_is_held_in_device_memory(rt, driver):
    x = rt.data(np.arange(12.0).reshape(3, 4))
    held = x[1].inout().on_device()
    interface = held.__cuda_array_interface__
    assert (held.shape, held.dtype, interface["stream"]) == ((4,), np.dtype("float64"), None)
    assert held.__dlpack_device__() == (10 if IS_HIP else 2, 0)
    np.testing.assert_array_equal(driver.read(interface["data"][0], (4,)), [4, 5, 6, 7])
    waiting = rt.task(x.inout())(lambda x: x.fill(-1))
    with pytest.raises(TimeoutError):
        waiting.result(timeout=0.02)
    with pytest.raises(BufferError, match="where it is"):
        held.__dlpack__(dl_device=(1, 0))
    capsule = held.__dlpack__()
    del held
    gc.collect()
    assert not waiting.done()
    del capsule
    gc.collect()
    waiting.result(timeout=60)
    assert (x.read() == -1).all()


@on_streams
@pytest.mark.parametrize("way", ["from_dlpack", "from_cuda_array"])
def test_runtimes_share_device_memory(axpy, way):
    with tw.Runtime(UNITS) as rt:
        x = rt.data(np.ones(N))
        with tw.Runtime(UNITS) as other:
            y = getattr(other, way)(x.inout().on_device(), name="y")
            assert (y.shape, y.dtype) == ((N,), x.dtype)
            other.task(other.data(np.arange(N, dtype=float)).input(), y.inout())(gpu=launch(axpy))
            np.testing.assert_array_equal(y.read(), 1 + 3 * np.arange(N))
            del y
        gc.collect()
        np.testing.assert_array_equal(x.read(), 1 + 3 * np.arange(N))


@on_streams
def test_foreign_array_is_used_in_place(driver, axpy):
    stream = driver.stream()
    with tw.Runtime(f"1:{KIND}:1") as rt:
        foreign = Foreign(driver, np.arange(N, dtype=float), stream)  # its producer may still be copying
        y = rt.from_cuda_array(foreign, name="y")
        rt.task(rt.data(np.ones(N)).input(), y.inout())(gpu=launch(axpy))
        rt.wait()
        np.testing.assert_array_equal(foreign.read(), 3 + np.arange(N))
        with pytest.raises(tw.Refused, match="overlaps"):
            rt.from_cuda_array(foreign)
    driver.destroy(stream)


@on_streams
def test_mistakes_of_foreign_arrays_are_refused(rt, driver):
    host = np.zeros(4)
    values = np.arange(4.0)
    for changes, part in [
        ({"mask": values}, "mask"),
        ({"typestr": ">f8"}, ">f8"),
        ({"typestr": "<U3"}, "<U3"),
        ({"strides": (12,)}, "stride of 12"),
        ({"strides": (8, 8)}, "2 strides"),
        ({"strides": (-8,)}, "stride"),
        ({"data": (host.ctypes.data, False)}, "memory"),
        ({"shape": (1, 1, 1, 1, 4)}, "dimensions"),
    ]:
        foreign = Foreign(driver, values)
        foreign.__cuda_array_interface__.update(changes)
        with pytest.raises(tw.Refused, match=part) as caught:
            rt.from_cuda_array(foreign)
        assert str(caught.value).startswith("cannot "), caught.value
    with pytest.raises(tw.Refused, match="device"):
        rt.from_cuda_array(Foreign(driver, values), 7)
    with pytest.raises(TypeError, match="`__cuda_array_interface__`"):
        rt.from_cuda_array(host)
    readonly = rt.from_cuda_array(as_readonly(Foreign(driver, values)))
    with pytest.raises(tw.Refused, match="read-only"):
        readonly.inout()


def as_readonly(foreign):
    foreign.__cuda_array_interface__["data"] = (foreign.address, True)
    return foreign
