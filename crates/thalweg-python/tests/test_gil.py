"""The interpreter's lock: nothing waits for a task with it, Ctrl-C ends waits, and forks are refused."""

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import thalweg as tw


def test_threads_that_submit_wait_read_and_drop_do_not_deadlock():
    """All calls at once, from several threads, with a window that is always full."""
    with tw.Runtime("2:CPU:1", max_pending_tasks=8) as rt:
        shared = rt.zeros(64, "int64")
        errors = []

        def work(seed):
            chance = random.Random(seed)
            try:
                for n in range(50):
                    kind = chance.randrange(6)
                    if kind == 0:
                        rt.task(shared.inout())(lambda x: np.add(x, 1, out=x))
                    elif kind == 1:
                        shared[chance.randrange(64)].read()
                    elif kind == 2:
                        rt.wait()
                    elif kind == 3:
                        own = rt.data(np.zeros(16))
                        for _ in range(20):
                            rt.task(own.inout())(lambda x: np.add(x, 1, out=x))
                        assert n % 2 or own.take().sum() == 320  # otherwise its tasks drop it
                    elif kind == 4:
                        with shared[:4].input() as part:
                            part.sum()
                        gc.collect()
                    else:
                        assert rt.task(shared[5].input())(lambda x: 5).result() == 5
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        [thread.start() for thread in threads]
        [thread.join(100) for thread in threads]
        assert not any(thread.is_alive() for thread in threads) and not errors, errors


def test_threads_submit_to_a_runtime_until_it_is_shut_down():
    """Every task that was accepted runs, and later ones are refused."""
    rt, counts = tw.Runtime("2:CPU:1"), np.zeros(4, "int64")
    ran, accepted, refused = rt.data(counts), [0] * 4, []

    def work(index):
        part = ran[index : index + 1].inout()
        while True:
            try:
                rt.task(part)(lambda x: np.add(x, 1, out=x))
                accepted[index] += 1
            except tw.Refused as error:
                refused.append(error)
                return

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    [thread.start() for thread in threads]
    while sum(accepted) < 400:
        time.sleep(0.001)
    rt.shutdown()
    [thread.join(100) for thread in threads]
    assert not any(thread.is_alive() for thread in threads) and len(refused) == 4
    assert counts.tolist() == accepted


def test_bodies_that_hold_python_locks_of_the_submitter_do_not_deadlock():
    """A body waits for a lock that the submitter has while it submits more tasks than the window allows."""
    lock = threading.Lock()
    with tw.Runtime("1:CPU:1", max_pending_tasks=4) as rt:
        ran = []

        def body():
            with lock:
                ran.append(1)

        for _ in range(20):
            with lock:
                for _ in range(8):
                    rt.task()(body)
        rt.wait()
        assert len(ran) == 160


def test_bodies_run_on_units_threads_side_by_side():
    with tw.Runtime("2:CPU:1") as rt:
        barrier, names = threading.Barrier(2), set()

        def body():
            barrier.wait(30)  # both bodies are in here, which the GIL allows while they wait
            names.add(threading.get_ident())

        for _ in range(5):
            pair = [rt.task()(body), rt.task()(body)]
            [task.result() for task in pair]
        assert len(names) == 2 and threading.get_ident() not in names


def test_units_threads_keep_their_thread_state():
    """Thread-local values survive from one body to the next, as they do not if each body attached its thread anew."""
    local = threading.local()

    def body():
        local.calls = getattr(local, "calls", 0) + 1
        return local.calls

    with tw.Runtime("1:CPU:1") as rt:
        assert [rt.task()(body).result() for _ in range(50)] == list(range(1, 51))


def test_timeouts_end_waits():
    with tw.Runtime("1:CPU:1") as rt:
        x, release, group = rt.zeros(1), threading.Event(), rt.group()
        task = rt.task(x.inout(), group=group)(lambda x: release.wait(60) and None)
        for wait in [rt.wait, task.wait, task.result, task.exception, group.wait, x.read, x.take]:
            began = time.monotonic()
            with pytest.raises(TimeoutError):
                wait(timeout=0.02)
            assert time.monotonic() - began < 30
        assert not task.done() and group.pending == 1
        release.set()
        assert x.take().tolist() == [0]


def interrupted(program):
    """Runs a program, interrupts it once it has printed a line, and returns its status and texts."""
    child = subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "waits\n"
        time.sleep(0.2)  # then it most likely waits, and otherwise is about to
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    return child.returncode, out, err


WAITS = ["rt.wait()", "task.result()", "group.wait()", "x.read()", "x.take()", "x.input().__enter__()"]


@pytest.mark.parametrize("wait", WAITS)
def test_interrupt_ends_a_wait(wait):
    program = f"""
import thalweg as tw, threading
release, ran = threading.Event(), []
try:
    with tw.Runtime("1:CPU:1") as rt:
        x, group = rt.zeros(1), rt.group()
        task = rt.task(x.inout(), group=group)(lambda x: release.wait(60) and None)
        rt.task(x.inout())(lambda x: ran.append(1))
        try:
            print("waits", flush=True)
            {wait}
        finally:
            release.set()
except KeyboardInterrupt:
    print("interrupted", ran)
"""
    status, out, err = interrupted(program)
    assert (status, out) == (0, "interrupted []\n"), err


def test_interrupt_ends_a_submission_that_waits():
    program = """
import thalweg as tw, threading
release = threading.Event()
try:
    with tw.Runtime("1:CPU:1", max_pending_tasks=4) as rt:
        rt.task()(lambda: release.wait(60) and None)
        try:
            print("waits", flush=True)
            while True:
                rt.task()(lambda: None)
        finally:
            release.set()
except KeyboardInterrupt:
    print("interrupted")
"""
    status, out, err = interrupted(program)
    assert (status, out) == (0, "interrupted\n"), err


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # that the process has threads, which is the point
def test_fork_is_refused_in_the_child():
    with tw.Runtime("2:CPU:1") as rt:
        x = rt.zeros(3)
        task = rt.task(x.inout())(lambda x: x.fill(1))
        task.wait()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            texts = []
            calls = [
                lambda: rt.task(x.inout())(lambda x: None),
                rt.wait,
                x.read,
                x.take,
                rt.shutdown,
                lambda: rt.data(np.zeros(1)),
            ]
            for call in calls:
                try:
                    call()
                    texts.append("done")
                except tw.Refused as refused:
                    texts.append(str(refused))
            os.write(write, "\n".join(texts).encode())
            del x, task, calls
            gc.collect()
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            texts = pipe.read().splitlines()
        assert os.waitpid(child, 0)[1] == 0
        assert len(texts) == 6 and all("fork" in text for text in texts), texts
        assert x.read().tolist() == [1, 1, 1]


def test_forked_child_that_ends_normally_does_not_hang():
    program = """
import multiprocessing as mp, thalweg as tw, os, sys, warnings
warnings.simplefilter("ignore")
rt = tw.Runtime("2:CPU:1")
x = rt.zeros(3)
rt.task(x.inout())(lambda x: None).wait()

def work(n):
    with tw.Runtime("1:CPU:1") as own:  # a child may have its own runtime
        y = own.zeros(1)
        own.task(y.inout())(lambda y: y.fill(n))
        return float(y.read()[0])

with mp.get_context("fork").Pool(2) as pool:
    assert pool.map(work, [1, 2, 3]) == [1, 2, 3]
if os.fork() == 0:
    sys.exit(7)
_, status = os.wait()
assert os.waitstatus_to_exitcode(status) == 7
rt.shutdown()
print("ok")
"""
    ran = subprocess.run([sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=100)
    assert (ran.returncode, ran.stdout) == (0, "ok\n") and "Refused" not in ran.stderr, ran.stderr


def test_objects_may_be_dropped_on_any_thread():
    for _ in range(5):
        rt = tw.Runtime("2:CPU:1")
        x = rt.data(np.ones(1000))
        tasks = [rt.task(part.inout())(lambda x: np.add(x, 1, out=x)) for part in x.blocks(100)]
        holder = [rt, x, tasks]
        del rt, x, tasks
        thread = threading.Thread(target=holder.clear)
        thread.start()
        thread.join(60)
        assert not thread.is_alive() and not holder


def test_runtime_dropped_in_its_own_body_ends():
    rt = tw.Runtime("1:CPU:1")
    x, done, holder = rt.zeros(1), threading.Event(), []
    rt.task(x.inout())(lambda x: (time.sleep(0.02), holder.clear(), done.set()) and None)
    holder.extend([rt, x])
    del rt, x
    assert done.wait(60)
