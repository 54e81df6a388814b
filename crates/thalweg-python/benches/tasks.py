"""Costs of tasks: of Python callables, of compiled functions, and of the same program by other libraries.

Contenders alternate in each round; the medians of the rounds are printed, in microseconds a task.

    python benches/tasks.py [ROUNDS]
"""

import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import thalweg as tw

TASKS = 10_000
"""Tasks in each of CHAINS chains, one after the other."""
CHAINS = 8


def nothing(x):
    pass


def python(rt, parts):
    for n in range(TASKS):
        rt.task(parts[n % CHAINS])(nothing)
    rt.wait()


def compiled(body):
    def run(rt, parts):
        for n in range(TASKS):
            rt.task(parts[n % CHAINS])(body)
        rt.wait()

    return run


def each(body):
    def run(rt, parts):
        for n in range(0, TASKS, CHAINS):
            rt.for_each(parts)(body)
        rt.wait()

    return run


def calls(rt, part):
    """Returns the seconds that the bodies alone take: they wait for a gate until all are submitted."""
    gate, x = threading.Event(), part
    rt.task(x)(lambda x: gate.wait() and None)
    for _ in range(TASKS):
        rt.task(x)(nothing)
    began = time.perf_counter()
    gate.set()
    rt.wait()
    return time.perf_counter() - began


def executor(pool):
    """Dependences by hand: each task waits in its chain, which has its own list."""

    def run():
        last = [None] * CHAINS

        def step(before):
            if before is not None:
                before.result()
            nothing(None)

        for n in range(TASKS):
            last[n % CHAINS] = pool.submit(step, last[n % CHAINS])
        for future in last:
            future.result()

    return run


def dask_graph():
    from dask.threaded import get

    count = TASKS // 10  # it takes ten times as long as the others

    def step(before):
        return nothing(before)

    def run():
        graph = {("t", n): (step, ("t", n - CHAINS) if n >= CHAINS else None) for n in range(count)}
        get(graph, [("t", n) for n in range(count - CHAINS, count)], num_workers=1)

    return run, count


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    contenders = {}
    rt = tw.Runtime("1:CPU:1", pin_threads=False)
    parts = [rt.zeros(16).inout() for _ in range(CHAINS)]
    contenders["thalweg, Python callable, 1 unit"] = (lambda: python(rt, parts), TASKS)
    gated = tw.Runtime("1:CPU:1", pin_threads=False, max_pending_tasks=2 * TASKS)
    gated_part = gated.zeros(16).inout()
    contenders["of that, the call of the body on the unit"] = (lambda: calls(gated, gated_part), TASKS)
    two = tw.Runtime("2:CPU:1", pin_threads=False)
    two_parts = [two.zeros(16).inout() for _ in range(CHAINS)]
    contenders["thalweg, Python callable, 2 units"] = (lambda: python(two, two_parts), TASKS)
    pool = ThreadPoolExecutor(1)
    contenders["ThreadPoolExecutor, 1 worker"] = (executor(pool), TASKS)
    try:
        contenders["dask.threaded, 1 worker"] = dask_graph()
    except ImportError:
        pass
    try:
        body = tw.numba_body("float64[:]")(nothing)
        contenders["thalweg, numba body, 1 unit"] = (lambda: compiled(body)(rt, parts), TASKS)
        if hasattr(rt, "for_each"):
            contenders["thalweg, numba body, for_each, 1 unit"] = (lambda: each(body)(rt, parts), TASKS)
            contenders["thalweg, Python callable, for_each, 1 unit"] = (lambda: each(nothing)(rt, parts), TASKS)
    except ImportError:
        pass
    times = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (run, count) in contenders.items():
            began = time.perf_counter()
            seconds = run() or time.perf_counter() - began
            times[name].append(seconds / count * 1e6)
    for name, found in times.items():
        print(f"{statistics.median(found):9.2f} us a task (least {min(found):.2f})  {name}")
    for runtime in [rt, two, gated]:
        runtime.shutdown()


if __name__ == "__main__":
    main()
