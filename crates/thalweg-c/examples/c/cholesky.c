/* Factors a positive definite matrix by tiles, in place. Each tile is a region of one data object; the order of the
 * tasks follows from the tiles that they read and write. */
#include "example.h"
#include "tiles.h"

enum { N = 240, TILE = 48 };

BODY(factor) {
  UNUSED;
  const tw_view *a = &views[0];
  return tile_factor(a->data, a->shape[0], a->strides[0]) ? 0 : tw_fail(context, "the matrix is not positive definite");
}

BODY(solve) {
  UNUSED;
  const tw_view *l = &views[0], *b = &views[1];
  tile_solve(l->data, l->shape[0], l->strides[0], b->data, b->shape[0], b->strides[0]);
  return 0;
}

BODY(update) { /* the last view is updated; for a diagonal tile, both factors are the first */
  UNUSED;
  const tw_view *a = &views[0], *b = &views[count - 2], *c = &views[count - 1];
  tile_update(a->data, a->shape[0], a->strides[0], b->data, b->shape[0], b->strides[0], a->shape[1], c->data,
              c->strides[0]);
  return 0;
}

static tw_access tile(tw_data a, tw_mode mode, size_t i, size_t j) {
  return tw_block(a, mode, i * TILE, (i + 1) * TILE, j * TILE, (j + 1) * TILE);
}

int main(void) {
  static double a[N * N];
  for (size_t i = 0; i < N; i++)
    for (size_t j = 0; j < N; j++) a[i * N + j] = element(i, j, N);
  tw_runtime rt = start("2:CPU:1");
  tw_data data;
  OK(tw_data_borrow(rt, a, TW_FLOAT64, 2, (size_t[]){N, N}, NULL, &data));
  for (size_t k = 0; k < N / TILE; k++) {
    OK(tw_submit(rt, &TW_TASK(.name = "factor", .body = factor, .priority = 2, TW_ACCESSES(tile(data, TW_INOUT, k, k))),
                 NULL));
    for (size_t i = k + 1; i < N / TILE; i++) {
      OK(tw_submit(rt, &TW_TASK(.name = "solve", .body = solve, .priority = 1,
                                TW_ACCESSES(tile(data, TW_IN, k, k), tile(data, TW_INOUT, i, k))), NULL));
    }
    for (size_t i = k + 1; i < N / TILE; i++) {
      for (size_t j = k + 1; j < i; j++) {
        OK(tw_submit(rt, &TW_TASK(.name = "update", .body = update,
                                  TW_ACCESSES(tile(data, TW_IN, i, k), tile(data, TW_IN, j, k),
                                              tile(data, TW_INOUT, i, j))), NULL));
      }
      OK(tw_submit(rt, &TW_TASK(.name = "update", .body = update,
                                TW_ACCESSES(tile(data, TW_IN, i, k), tile(data, TW_INOUT, i, i))), NULL));
    }
  }
  OK(tw_data_release(data));
  OK(tw_runtime_free(rt));
  puts(residual(a, N) < 1e-9 ? "VERIFIED" : "WRONG");
  return 0;
}
