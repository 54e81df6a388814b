/* The kernels of a Cholesky factorization on tiles of a row-major matrix, as plain loops. `ld` is the distance between
 * rows, in elements. */
#ifndef TILES_H
#define TILES_H
#include <math.h>
#include <stddef.h>

/* Factors a tile: a = l l'. Returns 0 if it is not positive definite. */
static inline int tile_factor(double *a, size_t n, size_t ld) {
  for (size_t j = 0; j < n; j++) {
    double d = a[j * ld + j];
    for (size_t k = 0; k < j; k++) d -= a[j * ld + k] * a[j * ld + k];
    if (!(d > 0)) return 0;
    a[j * ld + j] = sqrt(d);
    for (size_t i = j + 1; i < n; i++) {
      double s = a[i * ld + j];
      for (size_t k = 0; k < j; k++) s -= a[i * ld + k] * a[j * ld + k];
      a[i * ld + j] = s / a[j * ld + j];
    }
  }
  return 1;
}

/* Solves x l' = b in place of b, for the factor l of a diagonal tile. */
static inline void tile_solve(const double *l, size_t n, size_t ld_l, double *b, size_t rows, size_t ld_b) {
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < n; j++) {
      double s = b[i * ld_b + j];
      for (size_t k = 0; k < j; k++) s -= b[i * ld_b + k] * l[j * ld_l + k];
      b[i * ld_b + j] = s / l[j * ld_l + j];
    }
}

/* Subtracts a b' from c. */
static inline void tile_update(const double *a, size_t rows, size_t ld_a, const double *b, size_t columns, size_t ld_b,
                               size_t depth, double *c, size_t ld_c) {
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < columns; j++) {
      double s = 0;
      for (size_t k = 0; k < depth; k++) s += a[i * ld_a + k] * b[j * ld_b + k];
      c[i * ld_c + j] -= s;
    }
}

/* Returns an element of a positive definite matrix. */
static inline double element(size_t i, size_t j, size_t n) {
  return i == j ? (double)n : 1.0 / (double)(1 + (i > j ? i - j : j - i));
}

/* Returns the largest difference between the product of the factor in the lower triangle and the matrix. */
static inline double residual(const double *l, size_t n) {
  double largest = 0;
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j <= i; j++) {
      double s = 0;
      for (size_t k = 0; k <= j; k++) s += l[i * n + k] * l[j * n + k];
      double difference = fabs(s - element(i, j, n));
      if (difference > largest) largest = difference;
    }
  return largest;
}
#endif
