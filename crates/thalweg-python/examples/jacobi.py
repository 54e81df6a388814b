"""Jacobi's method for Laplace's equation: bands of rows, each of which needs a row of its neighbours."""

import numpy as np

import thalweg as tw

ROWS, COLUMNS, BAND, STEPS = 130, 64, 32, 40


def step(old, new):
    """`old` has one row more than `new` above and below."""
    new[:, 1:-1] = 0.25 * (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:])


def start():
    grid = np.zeros((ROWS, COLUMNS))
    grid[0] = 1.0
    return grid


def plain():
    old, new = start(), start()
    for _ in range(STEPS):
        step(old, new[1:-1])
        old, new = new, old
    return old


def main():
    with tw.Runtime() as rt:
        old, new = rt.data(start()), rt.data(start())
        for _ in range(STEPS):
            for first in range(1, ROWS - 1, BAND):
                end = min(first + BAND, ROWS - 1)
                rt.task(old[first - 1 : end + 1].input(), new[first:end].inout())(step)
            old, new = new, old  # no barrier: a band's next step begins when its neighbours are done
        np.testing.assert_array_equal(old.read(), plain())


if __name__ == "__main__":
    main()
    print("VERIFIED")
