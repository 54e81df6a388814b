"""The dot product of two vectors: each task adds to a private array, and the runtime combines them."""

import numpy as np

import thalweg as tw

COUNT, BLOCK = 1_000_000, 50_000


def main():
    chance = np.random.default_rng(1)
    a, b = chance.random(COUNT), chance.random(COUNT)
    with tw.Runtime() as rt:
        x, y, total = rt.data(a), rt.data(b), rt.zeros(1)

        def add(x, y, total):
            total += x @ y

        parts = zip(x.blocks(BLOCK), y.blocks(BLOCK))
        tasks = [(x.input(), y.input(), total.reduction("sum")) for x, y in parts]
        rt.for_each(*zip(*tasks), name="dot")(add)
        np.testing.assert_allclose(total.read()[0], a @ b)


if __name__ == "__main__":
    main()
    print("VERIFIED")
