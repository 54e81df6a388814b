/* Sums an array by tasks that each add to a private replica. The replicas are combined in the order of submission, so
 * the sum has the same bits on any number of cores: those of a plain loop over the same parts. */
#include "example.h"

enum { N = 100000, PART = 4096 };

static double sum_of(const double *x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += x[i];
  return sum;
}

BODY(sum) {
  UNUSED;
  *(double *)views[1].data += sum_of(views[0].data, views[0].count);
  return 0;
}

int main(void) {
  static double x[N];
  double expected = 0, found;
  for (int i = 0; i < N; i++) x[i] = 1.0 / (i + 1);
  for (size_t lo = 0; lo < N; lo += PART) expected += sum_of(x + lo, lo + PART < N ? PART : N - lo);

  tw_runtime rt = start("2:CPU:1");
  tw_data data, total;
  OK(tw_data_borrow(rt, x, TW_FLOAT64, 1, (size_t[]){N}, NULL, &data));
  OK(tw_data_zeros(rt, TW_FLOAT64, 1, (size_t[]){1}, &total));
  for (size_t lo = 0; lo < N; lo += PART) {
    OK(tw_submit(rt, &TW_TASK(.name = "sum", .body = sum,
                              TW_ACCESSES(tw_range(data, TW_IN, lo, lo + PART < N ? lo + PART : N),
                                          tw_whole(total, TW_SUM))), NULL));
  }
  OK(tw_data_read(total, NULL, NULL, &found, sizeof found));
  OK(tw_data_release(total));
  OK(tw_data_release(data));
  OK(tw_runtime_free(rt));
  puts(found == expected ? "VERIFIED" : "WRONG");
  return 0;
}
