"""A pipeline: several frames are in flight, and a log has them in order. The results are awaited."""

import asyncio

import numpy as np

import thalweg as tw

FRAMES, SIZE = 24, 10_000


def make(frame, number):
    frame[:] = np.arange(SIZE) % (number + 2)


def smooth(frame):
    frame[1:-1] = (frame[:-2] + frame[1:-1] + frame[2:]) / 3


def plain(number):
    frame = np.zeros(SIZE)
    make(frame, number)
    smooth(frame)
    return float(frame.sum())


async def main():
    with tw.Runtime() as rt:
        log, slots = [], [rt.zeros(SIZE) for _ in range(4)]
        order = rt.zeros(1)
        results = []
        for number in range(FRAMES):
            frame = slots[number % len(slots)]  # a frame begins when the last one in its slot is done
            rt.task(frame.output(), name="make")(lambda frame, number=number: make(frame, number))
            rt.task(frame.inout(), name="smooth")(smooth)
            rt.task(order.inout())(lambda _, number=number: log.append(number))
            results.append(rt.task(frame.input(), name="sum")(lambda frame: float(frame.sum())))
        sums = [await result for result in results]
        rt.wait()
    assert log == list(range(FRAMES)) and sums == [plain(number) for number in range(FRAMES)]


if __name__ == "__main__":
    asyncio.run(main())
    print("VERIFIED")
