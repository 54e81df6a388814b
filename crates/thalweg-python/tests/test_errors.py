"""Bad input and failing bodies: each gets a clear exception, and nothing is lost."""

import gc
import subprocess
import sys
import threading
import traceback

import numpy as np
import pytest

import thalweg as tw


@pytest.fixture
def rt():
    with tw.Runtime("2:CPU:1") as rt:
        yield rt


def refused(call, *parts, error=tw.Refused):
    """Checks that the call is refused with a text of the usual form."""
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert text.startswith("cannot ") and "; try " in text or ": try " in text, text
    for part in parts:
        assert part in text, text


def test_arrays_that_cannot_be_data_are_refused(rt):
    refused(lambda: rt.data([1, 2]), "list", "numpy.asarray", error=TypeError)
    refused(lambda: rt.data(np.array(["a", "b"])), "<U1")
    refused(lambda: rt.data(np.array([object()])), "object")
    refused(lambda: rt.data(np.zeros(3, [("x", "i4"), ("y", "f8")])))
    refused(lambda: rt.data(np.zeros(3, np.longdouble)))
    refused(lambda: rt.data(np.zeros(3, ">f8" if sys.byteorder == "little" else "<f8")), "byte order")
    refused(lambda: rt.data(np.float64(3)), "float64", error=TypeError)
    refused(lambda: rt.data(np.array(3.0)), "0 dimensions", "reshape")
    refused(lambda: rt.data(np.zeros((1, 1, 1, 1, 1))), "5 dimensions")
    refused(lambda: rt.data(np.arange(6.0)[::-1]), "stride")
    refused(lambda: rt.data(np.arange(6.0).reshape(2, 3).T), "stride")
    refused(lambda: rt.data(np.broadcast_to(np.arange(3.0), (4, 3))), "stride")
    refused(lambda: rt.data(np.zeros(3, [("x", "i1"), ("y", "f8")])["y"]), "stride")


def test_overlapping_registrations_are_refused(rt):
    a = np.zeros(10)
    x = rt.data(a[2:6], name="x")
    refused(lambda: rt.data(a), "overlaps")
    refused(lambda: rt.data(a[5:7]), "overlaps")
    y = rt.data(a[6:])
    x.take()
    refused(lambda: rt.data(a), "overlaps")
    y.take()
    rt.data(a)


def test_read_only_array_can_only_be_read(rt):
    a = np.arange(4.0)
    a.flags.writeable = False
    x = rt.data(a)
    assert rt.task(x.input())(lambda x: float(x.sum())).result() == 6.0
    for mode in [x.output, x.inout, x.commutative, lambda: x.reduction("sum"), lambda: x.write(1)]:
        refused(mode, "read-only", "copy")
    assert x.take() is a


def test_bad_indices_are_refused(rt):
    x = rt.zeros((3, 4))
    refused(lambda: x[::2], "steps", error=IndexError)
    refused(lambda: x[0, 0, 0], "2 dimensions", error=IndexError)
    refused(lambda: x[..., ...], error=IndexError)
    refused(lambda: x[[0, 1]], "box", error=TypeError)
    refused(lambda: x[None], "box", error=TypeError)
    refused(lambda: x[0.5], "box", error=TypeError)
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        x[3]
    for extents in [(), (0,), (1, 1, 1)]:
        refused(lambda: x.blocks(*extents), "blocks", error=ValueError)
    refused(lambda: x.reduction("product"), "sum", error=ValueError)


def test_bad_tasks_are_refused(rt):
    x, y = rt.zeros((3, 4), name="x"), rt.data(np.zeros(3, dtype=bool))
    with tw.Runtime("1:CPU:1") as other:
        refused(lambda: other.task(x.input())(lambda x: None), "another runtime")
    refused(lambda: rt.task(x), "access", error=TypeError)
    refused(lambda: rt.task(np.zeros(3)), "access", error=TypeError)
    refused(lambda: rt.task(x.input())(3), "callable", error=TypeError)
    refused(lambda: rt.task(x[:2].inout(), x[1:].input())(lambda x, y: None), "overlap", "`x`", __file__)
    refused(lambda: rt.task(y.reduction("sum"))(lambda y: None), "bool")
    refused(lambda: rt.task(cost=-1.0)(lambda: None), "cost")
    refused(lambda: rt.wait(timeout=-1), error=ValueError)
    refused(lambda: tw.Space([-1.0]), error=ValueError)
    refused(lambda: tw.Compiled(3.5), "function pointer", error=TypeError)
    refused(lambda: tw.Compiled(0), "null", error=ValueError)
    assert x.read().sum() == 0


def test_bad_runtimes_are_refused():
    refused(lambda: tw.Runtime(scheduler="fastest"), "stealing")
    for options in [{"units": "nonsense"}, {"max_pending_tasks": 0}, {"units": "1:CPU:1", "stack_bytes": 1}]:
        with pytest.raises(tw.Refused):
            tw.Runtime(**options)


def test_absurd_sizes_are_refused(rt):
    with pytest.raises((MemoryError, ValueError, OverflowError)):
        rt.zeros((2**40, 2**40))
    x = rt.zeros(4)
    assert [part.shape for part in x.blocks(2**62)] == [(4,)]
    assert x[-(2**62) : 2**62].shape == (4,)
    assert rt.zeros(0).read().shape == (0,)


def test_absurd_numbers_are_refused(rt):
    for options in [{"units": "99999999:CPU:1"}, {"units": "1:CPU:99999999999999999999"}]:
        with pytest.raises(tw.Refused, match="at most"):
            tw.Runtime(**options)
    for options in [{"max_pending_tasks": 2**70}, {"max_pending_tasks": -1}, {"stack_bytes": 2**70}]:
        with pytest.raises(OverflowError):
            tw.Runtime("1:CPU:1", **options)
    with pytest.raises(OverflowError):
        rt.task(priority=2**40)
    refused(lambda: rt.task(cost=float("nan"))(lambda: None), "cost")
    refused(lambda: rt.wait(timeout=float("nan")), error=ValueError)
    refused(lambda: tw.Space([float("inf")]), error=ValueError)
    refused(lambda: rt.task(at=(tw.Space([1.0]), 2**63))(lambda: None))
    rt.wait(timeout=1e300)


def test_bodies_that_return_late_are_waited_for(rt):
    gate, group, x = threading.Event(), rt.group(), rt.zeros(1)
    task = rt.task(x.inout(), group=group)(lambda x: gate.wait(60) and x.fill(7))
    for wait in [task.wait, task.result, task.exception, group.wait, rt.wait, x.read, x.take]:
        with pytest.raises(TimeoutError, match="0.01 s"):
            wait(timeout=0.01)
    gate.set()
    task.wait(timeout=60)
    group.wait(timeout=60)
    assert x.read(timeout=60)[0] == 7


def test_exception_keeps_type_traceback_and_cause(rt):
    x = rt.zeros(3)

    def fail(x):
        return {}["missing"]

    task, line = rt.task(x.inout())(fail), sys._getframe().f_lineno
    skipped = rt.task(x.input())(lambda x: None)
    with pytest.raises(KeyError, match="missing") as caught:
        task.result()
    assert "fail" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert isinstance(task.exception(), KeyError)
    with pytest.raises(tw.TaskError) as caught:
        skipped.result()
    assert f"`fail`, submitted at {__file__}:{line}" in str(caught.value)
    ((name, place, exception, count),) = caught.value.failures
    assert (name, place, type(exception), count) == ("fail", f"{__file__}:{line}", KeyError, 1)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(tw.TaskError):
        x.read()
    x.write(1)
    assert x.read().tolist() == [1, 1, 1]


def test_wait_reports_all_failures_once(rt):
    for n in range(3):
        rt.task(name=f"fail {n}")(lambda: 1 / 0)
    with pytest.raises(tw.TaskError) as caught:
        rt.wait()
    assert sorted(failure[0] for failure in caught.value.failures) == ["fail 0", "fail 1", "fail 2"]
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    rt.wait()


def test_leaving_the_block_reports_failures_and_keeps_the_blocks_exception():
    with pytest.raises(tw.TaskError, match="ZeroDivisionError"):
        with tw.Runtime("1:CPU:1") as rt:
            rt.task()(lambda: 1 / 0)
    with pytest.raises(KeyError):
        with tw.Runtime("1:CPU:1") as rt:
            rt.task()(lambda: 1 / 0)
            raise KeyError("own")


def test_wrong_number_of_parameters_fails_the_task(rt):
    with pytest.raises(TypeError, match="positional argument"):
        rt.task(rt.zeros(1).input())(lambda: None).result()


def test_exotic_exceptions_arrive(rt):
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    def throw(error):
        raise error

    for error in [Odd(), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration(4)]:
        with pytest.raises(type(error)):
            rt.task()(lambda error=error: throw(error)).result()


def test_calls_that_wait_are_refused_in_bodies(rt):
    x, y = rt.zeros(3), rt.zeros(3)
    done = rt.task()(lambda: None)
    slow = rt.task(y.inout())(lambda y: None)
    for call in [rt.wait, x.read, x.take, rt.shutdown, lambda: rt.group().wait(), slow.wait]:
        with pytest.raises(tw.Refused, match="inside a body"):
            rt.task(x.inout())(lambda x: call()).result()
        x.write(0)
    done.wait()
    assert rt.task()(done.result).result() is None  # it has ended, so there is nothing to wait for


def test_bodies_submit_tasks(rt):
    x, y = rt.zeros(1), rt.zeros(1)

    def body(x):
        rt.task(y.inout())(lambda y: y.fill(7))

    rt.task(x.inout())(body).result()
    rt.wait()
    assert y.read()[0] == 7
    with pytest.raises(tw.Refused, match="cannot "):
        rt.task(x.inout())(lambda array: rt.task(x.inout())(lambda x: None)).result()


def test_taken_and_ended_objects_are_refused():
    rt = tw.Runtime("1:CPU:1")
    x = rt.zeros(3, name="x")
    part, access = x[1:], x.inout()
    x.take()
    for call in [x.read, part.read, x.take, lambda: rt.task(access)(lambda x: None)]:
        refused(call, "taken")
    y = rt.zeros(3)
    rt.shutdown()
    rt.shutdown()
    for call in [lambda: rt.task()(lambda: None), lambda: rt.task(y.input())(lambda y: None)]:
        with pytest.raises(tw.Refused, match="shut"):
            call()
    assert y.read().tolist() == [0, 0, 0]


def test_array_is_given_back_when_its_handles_are_gone():
    rt = tw.Runtime("1:CPU:1")
    a = np.zeros(100)
    before = sys.getrefcount(a)
    x = rt.data(a)
    task = rt.task(x.inout())(lambda x: None)
    task.wait()
    del x, task
    rt.wait()
    rt.task()(lambda: None).wait()  # the next thread with the GIL drops the reference
    gc.collect()
    assert sys.getrefcount(a) == before
    rt.shutdown()


def test_runtime_that_is_never_ended_finishes_its_tasks():
    program = """
import thalweg as tw, time
rt = tw.Runtime("2:CPU:1")
x = rt.zeros(1)
def body(x):
    time.sleep(0.05)
    print("ran", flush=True)
for _ in range(3): rt.task(x.inout())(body)
"""
    ran = subprocess.run([sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout.split()) == (0, ["ran"] * 3), ran.stderr
