"""Handles of tasks: results, callbacks, cancellation, asyncio, groups and loops."""

import asyncio
import concurrent.futures
import threading

import numpy as np
import pytest

import thalweg as tw


def test_task_is_like_a_future():
    with tw.Runtime("2:CPU:1") as rt:
        begun, release = threading.Event(), threading.Event()

        def body():
            begun.set()
            release.wait(60)
            return "done"

        task = rt.task(name="t")(body)
        begun.wait(60)
        assert task.running() and not task.done() and not task.cancelled() and not task.cancel()
        release.set()
        assert task.result() == "done" and task.exception() is None and task.done() and not task.running()
        assert repr(task) == "<thalweg.Task `t` done>"


def test_cancelled_task_does_not_run():
    with tw.Runtime("1:CPU:1") as rt:
        x, release, ran = rt.zeros(1), threading.Event(), []
        rt.task(x.inout())(lambda x: release.wait(60) and None)
        task = rt.task(x.inout())(lambda x: ran.append(1))
        later = rt.task(x.input())(lambda x: ran.append(2))
        assert task.cancel() and task.cancelled()
        release.set()
        with pytest.raises(concurrent.futures.CancelledError):
            task.result()
        with pytest.raises(tw.TaskError, match="cancelled"):
            later.result()
        assert ran == [] and "cancelled" in repr(task)


def test_callbacks_are_called_once_after_the_end():
    with tw.Runtime("2:CPU:1") as rt:
        called, all_called = [], threading.Semaphore(0)

        def call_back(task):
            called.append((task.name, task.done(), isinstance(task.exception(), ZeroDivisionError)))
            all_called.release()

        x = rt.zeros(1)
        for n in range(3):
            rt.task(name=f"task {n}")(lambda: None).add_done_callback(call_back)
        failing = rt.task(x.inout(), name="fails")(lambda x: 1 / 0)
        failing.add_done_callback(call_back)
        skipped = rt.task(x.input(), name="skipped")(lambda x: None)
        skipped.add_done_callback(call_back)
        for _ in range(5):
            assert all_called.acquire(timeout=60)
        assert sorted(called) == [
            ("fails", True, True),
            ("skipped", True, False),
            ("task 0", True, False),
            ("task 1", True, False),
            ("task 2", True, False),
        ]
        with pytest.raises(ZeroDivisionError):
            failing.result()
        failing.add_done_callback(call_back)  # of a task that has ended
        assert all_called.acquire(timeout=60)


def test_tasks_can_be_awaited():
    async def main():
        with tw.Runtime("2:CPU:1") as rt:
            x = rt.zeros(100)
            tasks = [rt.task(part.inout())(lambda x: (x.fill(1), x.size)[1]) for part in x.blocks(10)]
            assert await asyncio.gather(*(collect(task) for task in tasks)) == [10] * 10
            with pytest.raises(KeyError):
                await rt.task()(lambda: {}[0])
            release = threading.Event()
            slow = rt.task()(lambda: release.wait(60) and "late")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(collect(slow), 0.01)
            release.set()
            assert await slow == "late"

    async def collect(task):
        return await task

    asyncio.run(main())


def test_group_waits_for_its_tasks_and_cancels_them():
    with tw.Runtime("1:CPU:1") as rt:
        group, release, ran = rt.group(), threading.Event(), []
        begun = threading.Event()
        rt.task(group=group)(lambda: (begun.set(), release.wait(60)) and None)
        begun.wait(60)
        rt.task(group=group)(lambda: ran.append(1))
        assert group.pending == 2 and not group.cancelled
        group.cancel()
        release.set()
        with pytest.raises(tw.TaskError, match="cancelled"):
            group.wait()
        assert (group.pending, group.cancelled, ran) == (0, True, [])
        with pytest.raises(tw.Refused, match="cancelled"):
            rt.task(group=group)(lambda: None)


def test_for_each_submits_a_task_for_each_entry():
    with tw.Runtime("2:CPU:1", max_pending_tasks=16) as rt:
        x, total = rt.data(np.arange(1000.0)), rt.zeros(1)
        parts = x.blocks(7)

        def add(x, total):
            total += x.sum()

        rt.for_each([p.input() for p in parts], [total.reduction("sum")] * len(parts), name="add")(add)
        assert total.read()[0] == 999 * 500
        rt.for_each(p.inout() for p in parts)(lambda x: 1 / 0)
        with pytest.raises(tw.TaskError) as caught:
            rt.wait()
        assert len(caught.value.failures) == len(parts)
        with pytest.raises(ValueError, match=r"lists of \[1, 0\] accesses; try"):
            rt.for_each([x.input()], [])
        with pytest.raises(ValueError, match="try"):
            rt.for_each()


def test_with_block_holds_a_region():
    with tw.Runtime("2:CPU:1") as rt:
        a = np.arange(6.0)
        x = rt.data(a)
        with x[1:3].inout() as part:
            assert np.shares_memory(part, a) and part.shape == (2,)
            waiting = rt.task(x[:2].inout())(lambda x: x.fill(-1))
            beside = rt.task(x[4:].inout())(lambda x: x.fill(7))
            beside.result(timeout=60)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.02)
            part += 10
        waiting.result(timeout=60)
        assert x.read().tolist() == [-1, -1, 12, 3, 7, 7]
        with x.input() as whole, x[0].input() as first:
            assert not whole.flags.writeable and first.shape == ()
        rt.task(x.inout())(lambda x: 1 / 0)
        with pytest.raises(tw.TaskError):
            with x.input():
                pass


def test_trace_is_a_page_or_a_file(tmp_path):
    for name in ["run.html", "run.thw"]:
        with tw.Runtime("2:CPU:1", trace=tmp_path / name) as rt:
            rt.task(name="traced task")(lambda: None)
        assert (tmp_path / name).stat().st_size > 100
    assert "<html" in (tmp_path / "run.html").read_text()
    with pytest.raises(tw.Refused, match="cannot create"):
        tw.Runtime("1:CPU:1", trace=tmp_path / "none" / "run.thw")
