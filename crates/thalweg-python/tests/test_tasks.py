"""Tasks, regions and modes: results equal those of sequential execution."""

import random

import numpy as np
import pytest

import thalweg as tw

UNITS = ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1", "1:EMU:2"]


@pytest.mark.parametrize("units", UNITS)
def test_random_programs_match_sequential_execution(units):
    for seed in range(12):
        chance = random.Random(seed)
        expected = np.zeros((7, 9), dtype=np.int64)
        with tw.Runtime(units) as rt:
            x = rt.data(np.zeros_like(expected))
            for n in range(60):
                rows = sorted(chance.sample(range(8), 2))
                columns = sorted(chance.sample(range(10), 2))
                index = slice(*rows), slice(*columns)
                region = x[index]
                kind = chance.randrange(5)
                if kind == 0:
                    expected[index] = n
                    rt.task(region.output())(lambda x, n=n: x.fill(n))
                elif kind == 1:
                    expected[index] = expected[index] * 3 + n
                    rt.task(region.inout())(lambda x, n=n: np.add(x * 3, n, out=x))
                elif kind == 2:
                    expected[index] += n
                    rt.task(region.commutative())(lambda x, n=n: np.add(x, n, out=x))
                elif kind == 3:
                    expected[index] += n
                    rt.task(region.reduction("sum"))(lambda x, n=n: np.add(x, n, out=x))
                else:
                    expected[index] = n + np.arange(columns[1] - columns[0])
                    region.write(n + np.arange(columns[1] - columns[0]))
            np.testing.assert_array_equal(x.read(), expected, err_msg=f"seed {seed}")
            assert x.take() is not None


def test_adopted_array_is_used_in_place():
    a = np.arange(12.0).reshape(3, 4)
    with tw.Runtime("2:CPU:1") as rt:
        x = rt.data(a)

        def double(x):
            assert np.shares_memory(x, a)
            np.multiply(x, 2, out=x)

        rt.task(x[1:3, 1:].inout())(double).result()
        assert x.take() is a
    np.testing.assert_array_equal(a, [[0, 1, 2, 3], [4, 10, 12, 14], [8, 18, 20, 22]])


def test_adopted_strides_and_types_are_kept():
    with tw.Runtime("2:CPU:1") as rt:
        for dtype in ["bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "complex64",
                      "complex128"]:
            whole = np.zeros((6, 8), dtype=dtype)
            x = rt.data(whole[1:5, 2:6])  # rows have gaps
            kinds = []

            def set_ones(x):
                kinds.append((x.dtype, x.shape, x.strides))
                x[...] = 1

            rt.task(x.inout())(set_ones).wait()
            assert kinds == [(whole.dtype, (4, 4), whole.strides)]
            x.take()
            assert whole[1:5, 2:6].all() and np.count_nonzero(whole) == 16


def test_values_are_home_after_the_block():
    for units in UNITS:
        a = np.zeros(100)
        with tw.Runtime(units) as rt:
            x = rt.data(a)
            rt.task(x.inout())(lambda x: x.fill(3))
        assert (a == 3).all(), units
        assert (x[10:20].read() == 3).all()


def test_input_is_read_only_and_output_is_not():
    for units in UNITS:
        with tw.Runtime(units) as rt:
            x, y = rt.zeros(4), rt.zeros(4)
            flags = []
            rt.task(x.input(), y.output())(lambda x, y: flags.append((x.flags.writeable, y.flags.writeable))).wait()
            assert flags == [(False, True)], units
            with pytest.raises(ValueError, match="read-only"):
                rt.task(x.input())(lambda x: x.fill(1)).result()
            with pytest.raises(tw.TaskError):
                rt.wait() or rt.task(x.input())(lambda x: x.fill(1)).wait()


def test_slices_are_numpys():
    with tw.Runtime("1:CPU:1") as rt:
        a = np.arange(4 * 5 * 6.0).reshape(4, 5, 6)
        x = rt.data(a.copy())
        for index in [np.s_[1], np.s_[1:3], np.s_[:, 2], np.s_[..., -1], np.s_[1:3, ..., 2:4], np.s_[-1, -2, -3],
                      np.s_[0:100], np.s_[-2:], np.s_[3:1], np.s_[...]]:
            assert x[index].shape == a[index].shape, index
            np.testing.assert_array_equal(x[index].read(), a[index], err_msg=str(index))
        shapes = []
        rt.task(x[1, 2:4].input())(lambda x: shapes.append(x.shape)).wait()
        assert shapes == [(2, 6)]
        np.testing.assert_array_equal(x[1:][0, 1].read(), a[1:][0, 1])
        np.testing.assert_array_equal(np.asarray(x[2]), a[2])


def test_reductions_combine_private_arrays():
    for units in UNITS:
        with tw.Runtime(units) as rt:
            total, least, most = rt.zeros(2), rt.data(np.full(1, 99)), rt.data(np.full(1, -99))
            for n in range(10):
                def body(total, least, most, n=n):
                    total += n
                    least[0] = min(least[0], n)
                    most[0] = max(most[0], n)

                rt.task(total.reduction("sum"), least.reduction("min"), most.reduction("max"))(body)
            assert (total.read().tolist(), least.read()[0], most.read()[0]) == ([45, 45], 0, 9), units


def test_arrays_that_bodies_keep_stay_valid():
    """A body may keep its arrays, even of memory that the runtime frees after it."""
    kept = []
    for units in UNITS:
        with tw.Runtime(units) as rt:
            x, total = rt.data(np.ones(1000)), rt.zeros(1000)
            rt.task(x.inout(), total.reduction("sum"))(lambda x, total: kept.extend([x, total, x[3:5]]))
            rt.wait()
            x.take()
        del x, total, rt
    for array in kept:
        array.sum()
        array.fill(2)


def test_after_orders_without_an_array():
    with tw.Runtime("2:CPU:1") as rt:
        x, seen = rt.zeros(1), []
        rt.task(x.inout())(lambda x: seen.append("first"))
        rt.task(x.after())(lambda: seen.append("second")).wait()
        assert seen == ["first", "second"]


def test_many_tasks_exceed_the_window():
    with tw.Runtime("2:CPU:1", max_pending_tasks=64) as rt:
        x = rt.zeros(1, "int64")
        for _ in range(5000):
            rt.task(x.inout())(lambda x: np.add(x, 1, out=x))
        assert x.read()[0] == 5000


def test_decorator_names_the_task():
    with tw.Runtime("1:CPU:1") as rt:
        @rt.task()
        def answer():
            return 42

        assert (answer.name, answer.result(), answer.done()) == ("answer", 42, True)
        assert answer.place.startswith(__file__)
        assert rt.task(name="other")(lambda: None).name == "other"


def test_schedulers_priorities_costs_and_spaces_are_accepted():
    for scheduler in ["stealing", "dynamic", "static"]:
        with tw.Runtime("2:CPU:1", scheduler=scheduler) as rt:
            space, x = tw.Space([1.0] * 4), rt.zeros(4)
            for _ in range(3):
                space.begin()
                for n in range(4):
                    rt.task(x[n].inout(), at=(space, n), priority=n, cost=1.0)(lambda x: np.add(x, 1, out=x))
            assert x.read().tolist() == [3] * 4
            assert sum(rt.statistics().tasks) >= 12


def test_statistics_and_reports_show_units():
    with tw.Runtime("2:CPU:1") as rt:
        rt.task()(lambda: None).wait()
        assert rt.units == "2:CPU:1" and "2:CPU:1" in repr(rt)
        assert "<table>" in rt._repr_html_() and "unit 0" in str(rt.statistics())
