"""Compiled bodies: of C by ctypes and cffi, of numba, and by capsules. They run without the GIL."""

import ctypes
import pathlib
import shutil
import subprocess
import threading

import numpy as np
import pytest

import thalweg as tw

HEADER = pathlib.Path(__file__).parents[2] / "thalweg-c" / "include"

SOURCE = """
#include <stddef.h>
#include <thalweg.h>

/* Multiplies a matrix by the argument. */
int scale(tw_context *context, const tw_view *views, size_t count, void *argument) {
    const tw_view *x = &views[0];
    double factor = *(double *)argument;
    if (context || count != 1 || x->ndim != 2 || x->element_bytes != sizeof(double) || !x->is_writable) return 2;
    for (size_t i = 0; i < x->shape[0]; i++)
        for (size_t j = 0; j < x->shape[1]; j++) ((double *)x->data)[i * x->strides[0] + j * x->strides[1]] *= factor;
    return 0;
}

int fail(tw_context *context, const tw_view *views, size_t count, void *argument) {
    (void)context, (void)views, (void)count;
    return argument ? 4 : 3;
}

static volatile int flag;
void set_flag(void) { flag = 1; }

/* Waits for the flag, which a body in Python sets. */
int wait_for_flag(tw_context *context, const tw_view *views, size_t count, void *argument) {
    (void)context, (void)views, (void)count, (void)argument;
    while (!flag) {}
    return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("c")
    (folder / "bodies.c").write_text(SOURCE)
    subprocess.run(["cc", "-std=c99", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{HEADER}", "bodies.c", "-o",
                    "bodies.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "bodies.so"))


def test_c_body_serves_python_as_well(library):
    scale = tw.Compiled(library.scale, np.float64(3.0))
    with tw.Runtime("2:CPU:1") as rt:
        x = rt.data(np.ones((6, 8)))
        for part in x.blocks(4, 5):
            rt.task(part.inout())(scale)
        rt.task(x[2].inout())(scale.with_argument(np.float64(5.0)))
        expected = np.full((6, 8), 3.0)
        expected[2] = 15.0
        np.testing.assert_array_equal(x.read(), expected)
        assert rt.task(x.inout())(scale).name == "scale"


def test_status_of_a_compiled_body_fails_the_task(library):
    with tw.Runtime("1:CPU:1") as rt:
        for body, status in [(tw.Compiled(library.fail), 3), (tw.Compiled(library.fail, b"x", name="f"), 4)]:
            with pytest.raises(tw.TaskError, match=f"`{body.name}`.*its body returned {status}"):
                rt.task()(body).result()


def test_compiled_bodies_run_without_the_gil(library):
    """The first body ends only after the second one, in Python, has run: with the GIL it would keep it from running."""
    with tw.Runtime("2:CPU:1") as rt:
        waiting = rt.task()(tw.Compiled(library.wait_for_flag))
        rt.task()(lambda: library.set_flag()).result(timeout=60)
        waiting.result(timeout=60)


def test_exception_in_the_block_skips_bodies_that_have_not_begun(library):
    release, a = threading.Event(), np.ones((2, 2))
    with pytest.raises(KeyError):
        with tw.Runtime("1:CPU:1") as rt:
            x, ran = rt.data(a), []
            rt.task(x.inout())(lambda x: release.wait(60) and None)
            rt.task(x.inout())(tw.Compiled(library.scale, np.float64(3.0)))
            rt.task(x.after())(lambda: ran.append(1))
            threading.Timer(0.1, release.set).start()
            raise KeyError
    assert (a == 1).all() and ran == []


def test_ctypes_callbacks_are_bodies():
    seen = []

    @tw.BODY
    def body(context, views, count, argument):
        view = np.frombuffer((ctypes.c_char * tw.VIEW.itemsize).from_address(views), tw.VIEW)[0]
        seen.append((context, view["ndim"], view["shape"].tolist(), view["count"], bool(view["is_writable"])))
        return 0

    with tw.Runtime("2:CPU:1") as rt:
        rt.task(rt.zeros((3, 4)).input())(tw.Compiled(body)).result()
    assert seen == [(None, 2, [3, 4, 1, 1], 12, False)]


def test_compiled_bodies_that_call_back_are_refused_waits():
    with tw.Runtime("1:CPU:1") as rt:
        texts = []

        @tw.BODY
        def body(context, views, count, argument):
            try:
                rt.wait()
            except tw.Refused as refused:
                texts.append(str(refused))
            return 0

        rt.task()(tw.Compiled(body)).result()
        assert len(texts) == 1 and "inside a body" in texts[0]


def test_cffi_pointers_and_capsules_are_bodies(library):
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    address = ctypes.cast(library.fail, ctypes.c_void_p).value
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = ctypes.c_char_p(b"int (void *, void *, size_t, void *)")
    for function in [ffi.cast("int (*)(void *, void *, size_t, void *)", address), new(address, name, None), address]:
        with tw.Runtime("1:CPU:1") as rt:
            with pytest.raises(tw.TaskError, match="returned 3"):
                rt.task()(tw.Compiled(function)).result()


def test_numba_bodies_get_arrays():
    pytest.importorskip("numba")

    @tw.numba_body("float64[:, :]", "float64[:]", "int32[::1]")
    def body(a, x, n):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                a[i, j] += x[j] * n[0]

    with tw.Runtime("2:CPU:1") as rt:
        a, x, n = np.arange(48.0).reshape(6, 8), np.arange(8.0), np.full(1, 10, dtype="int32")
        expected = a.copy()
        expected[1:4, 2:6] += x[2:6] * 10
        data = rt.data(a)
        task = rt.task(data[1:4, 2:6].inout(), rt.data(x)[2:6].input(), rt.data(n).input())(body)
        assert (task.name, task.result()) == ("body", None)
        np.testing.assert_array_equal(data.read(), expected)
        with pytest.raises(tw.TaskError, match="returned 1"):
            rt.task(data.inout())(body).result()
    with pytest.raises(TypeError, match="no array"):
        tw.numba_body("float64")(lambda x: None)
