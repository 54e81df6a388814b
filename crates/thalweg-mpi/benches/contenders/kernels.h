/* The problems of the bench `ranks`, for all contenders: the kernels of a tiled Cholesky factorization, the matrix, and
 * the owners of its tiles. Tiles are square, contiguous and in row-major order. */

#ifndef KERNELS_H
#define KERNELS_H

/* Fills the tile at tile row `i` and tile column `j` of a matrix of `size` rows. */
void fill(double *a, long i, long j, long tile, long size);
/* Factorizes a diagonal tile. */
void potrf(double *a, long tile);
/* Solves for a tile below the diagonal tile `l`. */
void trsm(const double *l, double *a, long tile);
/* Subtracts the product of `a` and the transposed `b` from `c`. */
void gemm(const double *a, const double *b, double *c, long tile);
/* Returns the sum of a diagonal tile's diagonal. */
double trace_of(const double *a, long tile);

#endif
