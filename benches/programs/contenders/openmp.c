// A tiled Cholesky factorization with OpenMP tasks, built as a library. The bench provides the tile kernels.

#include <omp.h>

typedef struct {
    void (*potrf)(double *a);
    void (*trsm)(const double *l, double *b);
    void (*gemm)(const double *a, const double *b, double *c);
} Kernels;

// Factors a matrix whose tile (i, j), on or below the diagonal, is tiles[i * (i + 1) / 2 + j]. Returns the elapsed time
// in seconds. OMP_NUM_THREADS sets the number of threads.
double factor(double *const *tiles, int n, const Kernels *kernels) {
#define AT(i, j) tiles[(i) * ((i) + 1) / 2 + (j)]
    double start = omp_get_wtime();
#pragma omp parallel
#pragma omp single
    for (int k = 0; k < n; k++) {
        double *diagonal = AT(k, k);
#pragma omp task depend(inout : diagonal[0])
        kernels->potrf(diagonal);
        for (int i = k + 1; i < n; i++) {
            double *below = AT(i, k);
#pragma omp task depend(in : diagonal[0]) depend(inout : below[0])
            kernels->trsm(diagonal, below);
        }
        for (int i = k + 1; i < n; i++) {
            for (int j = k + 1; j <= i; j++) {
                double *left = AT(i, k), *right = AT(j, k), *own = AT(i, j);
#pragma omp task depend(in : left[0], right[0]) depend(inout : own[0])
                kernels->gemm(left, right, own);
            }
        }
    }
    return omp_get_wtime() - start;
}
