"""The order of tasks follows from their data."""

import numpy as np

import thalweg as tw


def main():
    with tw.Runtime("2:CPU:1") as rt:
        words = rt.data(np.zeros(2, dtype="int64"), name="words")
        order = []
        rt.task(words[0].output())(lambda word: (word.fill(1), order.append("hello")) and None)
        rt.task(words[1].output(), words[0].input())(lambda word, before: (word.fill(before + 1), order.append("world")) and None)
        rt.task(words.input())(lambda words: print(*order))
        assert words.read().tolist() == [1, 2] and order == ["hello", "world"]


if __name__ == "__main__":
    main()
    print("VERIFIED")
