/* Doubles an array in parts. The order of tasks follows from their data. */
#include <stdio.h>
#include <thalweg.h>

static int scale(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context, (void)count;
  double *x = views[0].data;
  for (size_t i = 0; i < views[0].count; i++) x[i] *= *(double *)argument;
  return 0; /* another number fails the task; tw_fail gives the reason */
}

int main(void) {
  static double x[1000];
  tw_runtime rt;
  tw_data data;
  for (int i = 0; i < 1000; i++) x[i] = 1;
  tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = "2:CPU:1"}, &rt);
  tw_data_borrow(rt, x, TW_FLOAT64, 1, (size_t[]){1000}, NULL, &data);
  for (size_t lo = 0; lo < 1000; lo += 100) {
    tw_submit(rt, &TW_TASK(.name = "scale", .body = scale, TW_ARGUMENT(double, 2.0),
                           TW_ACCESSES(tw_range(data, TW_INOUT, lo, lo + 100))), NULL);
  }
  if (tw_data_release(data) != TW_OK) { /* waits; then the array is ours again */
    fprintf(stderr, "%s\n", tw_last_error());
  }
  printf("%g\n", x[999]);
  return tw_runtime_free(rt);
}
