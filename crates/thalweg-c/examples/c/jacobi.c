/* Jacobi's method for Laplace's equation on a square: a task per block of rows and step. The rows next to a block are
 * read as part of its region, so no step waits for all blocks of the one before. */
#include "example.h"

enum { N = 200, ROWS = 33, STEPS = 50 };

/* Averages the neighbours of the rows between the first and the last one of `u`. */
static void sweep_rows(const double *u, size_t rows, size_t ld_u, double *v, size_t ld_v) {
  for (size_t i = 1; i + 1 < rows; i++)
    for (size_t j = 1; j + 1 < N; j++)
      v[(i - 1) * ld_v + j] = 0.25 * (u[(i - 1) * ld_u + j] + u[(i + 1) * ld_u + j] + u[i * ld_u + j - 1] + u[i * ld_u + j + 1]);
}

BODY(sweep) {
  UNUSED;
  sweep_rows(views[0].data, views[0].shape[0], views[0].strides[0], views[1].data, views[1].strides[0]);
  return 0;
}

int main(void) {
  static double grid[2][N][N], plain[2][N][N];
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < N; i++) grid[k][i][0] = plain[k][i][0] = 1;
  for (int step = 0; step < STEPS; step++)
    sweep_rows(&plain[step % 2][0][0], N, N, &plain[1 - step % 2][1][0], N);

  tw_runtime rt = start("2:CPU:1");
  tw_data data[2];
  for (int k = 0; k < 2; k++) OK(tw_data_borrow(rt, grid[k], TW_FLOAT64, 2, (size_t[]){N, N}, NULL, &data[k]));
  for (int step = 0; step < STEPS; step++) {
    for (size_t lo = 1; lo < N - 1; lo += ROWS) {
      size_t hi = lo + ROWS < N - 1 ? lo + ROWS : N - 1;
      OK(tw_submit(rt, &TW_TASK(.name = "sweep", .body = sweep,
                                TW_ACCESSES(tw_range(data[step % 2], TW_IN, lo - 1, hi + 1),
                                            tw_range(data[1 - step % 2], TW_INOUT, lo, hi))), NULL));
    }
  }
  for (int k = 0; k < 2; k++) OK(tw_data_release(data[k]));
  OK(tw_runtime_free(rt));
  puts(memcmp(grid, plain, sizeof grid) == 0 ? "VERIFIED" : "WRONG");
  return 0;
}
