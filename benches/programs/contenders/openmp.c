// A Cholesky factorization in tiles by OpenMP's tasks: `cholesky.rs`, kernel by kernel.
//
// Arguments: cholesky SIZE WORKERS PASSES. Prints {"figure": seconds of the fastest pass, "check": the sum of the factor's
// last row}. The number of threads is OMP_NUM_THREADS.

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = 256, TOGETHER = 8 };

static void potrf(double *a) {
    for (int k = 0; k < TILE; k++) {
        double *own = a + k * TILE;
        double root = sqrt(own[k]);
        own[k] = root;
        for (int i = k + 1; i < TILE; i++) own[i] /= root;
        for (int j = k + 1; j < TILE; j++) {
            double *restrict column = a + j * TILE;
            double factor = own[j];
            for (int i = j; i < TILE; i++) column[i] -= own[i] * factor;
        }
    }
}

static void trsm(const double *restrict l, double *b) {
    for (int k = 0; k < TILE; k++) {
        double *own = b + k * TILE;
        double root = l[k * TILE + k];
        for (int i = 0; i < TILE; i++) own[i] /= root;
        for (int j = k + 1; j < TILE; j++) {
            double *restrict column = b + j * TILE;
            double factor = l[k * TILE + j];
            for (int i = 0; i < TILE; i++) column[i] -= own[i] * factor;
        }
    }
}

static void gemm(const double *a, const double *b, double *restrict all) {
    for (int j = 0; j < TILE; j++) {
        double *restrict c = all + j * TILE;
        for (int k = 0; k < TILE; k += TOGETHER) {
            const double *column = a + k * TILE;
            double factor[TOGETHER];
            for (int t = 0; t < TOGETHER; t++) factor[t] = b[(k + t) * TILE + j];
            for (int i = 0; i < TILE; i++) {
                c[i] -= column[i] * factor[0] + column[TILE + i] * factor[1] + column[2 * TILE + i] * factor[2] +
                        column[3 * TILE + i] * factor[3] + column[4 * TILE + i] * factor[4] +
                        column[5 * TILE + i] * factor[5] + column[6 * TILE + i] * factor[6] +
                        column[7 * TILE + i] * factor[7];
            }
        }
    }
}

static double *at(double **tiles, int i, int j) { return tiles[i * (i + 1) / 2 + j]; }

static void fill(double **tiles, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            for (int c = 0; c < TILE; c++)
                for (int r = 0; r < TILE; r++) {
                    int apart = abs(i * TILE + r - (j * TILE + c));
                    at(tiles, i, j)[c * TILE + r] = apart == 0 ? n * TILE : 1.0 / (1 + apart);
                }
}

static void factor(double **tiles, int n) {
#pragma omp parallel
#pragma omp single
    for (int k = 0; k < n; k++) {
        double *diagonal = at(tiles, k, k);
#pragma omp task depend(inout : diagonal[0])
        potrf(diagonal);
        for (int i = k + 1; i < n; i++) {
            double *below = at(tiles, i, k);
#pragma omp task depend(in : diagonal[0]) depend(inout : below[0])
            trsm(diagonal, below);
        }
        for (int i = k + 1; i < n; i++) {
            for (int j = k + 1; j <= i; j++) {
                double *left = at(tiles, i, k), *right = at(tiles, j, k), *own = at(tiles, i, j);
#pragma omp task depend(in : left[0], right[0]) depend(inout : own[0])
                gemm(left, right, own);
            }
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 5 || strcmp(argv[1], "cholesky") != 0) {
        fprintf(stderr, "usage: %s cholesky SIZE WORKERS PASSES\n", argv[0]);
        return 2;
    }
    int n = (atoi(argv[2]) + TILE - 1) / TILE, passes = atoi(argv[4]), count = n * (n + 1) / 2;
    double **tiles = malloc(count * sizeof *tiles);
    for (int tile = 0; tile < count; tile++) tiles[tile] = aligned_alloc(64, TILE * TILE * sizeof(double));
    double least = INFINITY;
    for (int pass = 0; pass <= passes; pass++) { // one to warm up
        fill(tiles, n);
        double start = omp_get_wtime();
        factor(tiles, n);
        double elapsed = omp_get_wtime() - start;
        if (elapsed < least) least = elapsed;
    }
    double check = 0;
    for (int j = 0; j < n; j++)
        for (int c = 0; c < TILE; c++) check += at(tiles, n - 1, j)[c * TILE + TILE - 1];
    printf("{\"figure\": %.9f, \"check\": %.17g}\n", least, check);
    return 0;
}
