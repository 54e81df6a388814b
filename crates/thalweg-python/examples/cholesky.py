"""The Cholesky factorization of a symmetric matrix, in tiles, by SciPy's BLAS and LAPACK.

    python cholesky.py [SIZE] [TILE] [UNITS]

Prints the rate, and compares the factor with the matrix. SciPy's functions release the GIL while they compute. Set
`OPENBLAS_NUM_THREADS=1`, so that its threads do not compete with the units.
"""

import sys
import time

import numpy as np
from scipy.linalg import blas, lapack

import thalweg as tw


def potrf(a):
    # The transpose of a tile in row-major order is a matrix in column-major order, which LAPACK overwrites in place.
    _, info = lapack.dpotrf(a.T, lower=0, clean=0, overwrite_a=1)
    if info:
        raise ArithmeticError(f"cannot factor the tile: minor {info} is not positive definite; try another matrix")


def trsm(a, b):
    blas.dtrsm(1.0, a.T, b.T, side=0, lower=0, trans_a=1, overwrite_b=1)


def syrk(a, c):
    blas.dsyrk(-1.0, a.T, beta=1.0, c=c.T, trans=1, lower=0, overwrite_c=1)


def gemm(a, b, c):
    blas.dgemm(-1.0, b.T, a.T, beta=1.0, c=c.T, trans_a=1, overwrite_c=1)


def factor(rt, tiles):
    """Submits the factorization of these tiles, whose lower part is overwritten by the factor."""
    count = len(tiles)
    for k in range(count):
        rt.task(tiles[k][k].inout(), priority=3)(potrf)
        for i in range(k + 1, count):
            rt.task(tiles[k][k].input(), tiles[i][k].inout(), priority=2)(trsm)
        for i in range(k + 1, count):
            rt.task(tiles[i][k].input(), tiles[i][i].inout(), priority=1)(syrk)
            for j in range(k + 1, i):
                rt.task(tiles[i][k].input(), tiles[j][k].input(), tiles[i][j].inout())(gemm)


def main(size=512, tile=64, units=None):
    chance = np.random.default_rng(1)
    matrix = chance.random((size, size))
    matrix = matrix + matrix.T + 2 * size * np.eye(size)
    count = size // tile
    cut = [[np.ascontiguousarray(matrix[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile]) for j in range(i + 1)]
           for i in range(count)]
    with tw.Runtime(units) as rt:
        tiles = [[rt.data(a, name=f"tile {i}, {j}") for j, a in enumerate(row)] for i, row in enumerate(cut)]
        began = time.perf_counter()
        factor(rt, tiles)
        rt.wait()
        seconds = time.perf_counter() - began
    lower = np.zeros_like(matrix)
    for i, row in enumerate(cut):
        for j, a in enumerate(row):
            lower[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile] = a if i > j else np.tril(a)
    np.testing.assert_allclose(lower, np.linalg.cholesky(matrix), atol=1e-8 * size)
    print(f"{size**3 / 3 / seconds / 1e9:.2f} GFLOP/s")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(*map(int, arguments[:2]), *arguments[2:3])
    print("VERIFIED")
