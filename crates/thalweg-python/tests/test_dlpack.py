"""Exchange of arrays by DLPack."""

import gc
import weakref

import numpy as np
import pytest

import thalweg as tw


class Legacy:
    """An array that knows only DLPack before 1.0."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("wrap", [lambda a: a, Legacy])
def test_imported_array_is_used_in_place(wrap):
    for dtype in ["float32", "int8", "complex128", "bool"]:
        a = np.zeros((3, 4), dtype=dtype)
        with tw.Runtime("2:CPU:1") as rt:
            x = rt.from_dlpack(wrap(a[1:]), name="x")
            assert (x.shape, x.dtype) == ((2, 4), a.dtype)
            rt.task(x.inout())(lambda x: x.fill(1))
            taken = x.take()
        assert a[1:].all() and not a[0].any() and np.shares_memory(taken, a)


def test_imported_array_lives_until_it_is_given_back():
    rt = tw.Runtime("1:CPU:1")
    a = np.zeros(10)
    alive = weakref.ref(a)
    x = rt.from_dlpack(a)
    del a
    rt.task(x.inout())(lambda x: x.fill(1))
    assert x.read().sum() == 10 and alive() is not None
    del x
    rt.wait()
    rt.task()(lambda: None).wait()
    gc.collect()
    assert alive() is None
    rt.shutdown()


def test_exported_region_is_shared_and_held():
    with tw.Runtime("2:CPU:1") as rt:
        a = np.arange(12.0).reshape(3, 4)
        x = rt.data(a)
        exported = np.from_dlpack(x[:, 1:3].inout())
        assert np.shares_memory(exported, a) and exported.tolist() == [[1, 2], [5, 6], [9, 10]]
        waiting = rt.task(x.inout())(lambda x: x.fill(-1))
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.02)
        del exported
        gc.collect()
        waiting.result(timeout=60)
        shared = np.from_dlpack(x.input())
        assert not shared.flags.writeable and rt.task(x.input())(lambda x: x.sum()).result(timeout=60) == -12
        del shared


def test_unused_capsule_gives_the_region_back():
    with tw.Runtime("1:CPU:1") as rt:
        x = rt.zeros(4)
        for versions in [{}, {"max_version": (1, 0)}, {"max_version": (2, 0)}]:
            capsule = x.inout().__dlpack__(**versions)
            assert "dltensor" in repr(capsule)
            del capsule
            rt.task(x.inout())(lambda x: None).result(timeout=60)
        assert x.inout().__dlpack_device__() == (1, 0)


def test_mistakes_are_refused():
    with tw.Runtime("1:CPU:1") as rt:
        with pytest.raises(TypeError, match="`__dlpack__`"):
            rt.from_dlpack([1, 2])
        x = rt.zeros(4)
        with pytest.raises(BufferError, match="read-only"):
            x.input().__dlpack__()
        with pytest.raises(BufferError, match="in place"):
            x.inout().__dlpack__(copy=True)
        with pytest.raises(tw.Refused, match="overlaps"):
            a = np.zeros(3)
            keep = [rt.data(a), rt.from_dlpack(a)]
        x.write(3)
        for access in [x.output(), x.commutative(), x.reduction("sum"), x.after()]:
            with pytest.raises((tw.Refused, BufferError), match="try"):
                access.__dlpack__()
            with pytest.raises(tw.Refused, match="only `input` and `inout`"):
                with access:
                    pass
        assert x.read().tolist() == [3] * 4
        readonly = np.zeros(3)
        readonly.flags.writeable = False
        y = rt.from_dlpack(readonly)
        with pytest.raises(tw.Refused, match="read-only"):
            y.inout()


def test_torch_tensors_are_exchanged():
    torch = pytest.importorskip("torch")
    with tw.Runtime("2:CPU:1") as rt:
        tensor = torch.ones(3, 4)
        x = rt.from_dlpack(tensor)
        rt.task(x.inout())(lambda x: np.multiply(x, 2, out=x)).wait()
        assert torch.from_dlpack(x.inout()).sum() == 24
        x.take()
        assert tensor.sum() == 24
