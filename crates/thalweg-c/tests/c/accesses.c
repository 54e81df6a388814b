/* Bodies that break what their tasks declare. The access sanitizer finds each; without it, all of them end well. */
#include "check.h"

enum { N = 100 };

static int writes_past_region(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context, (void)count, (void)argument;
  double *x = views[0].data;
  for (size_t i = 0; i <= views[0].count; i++) x[i] = 1.0;
  return 0;
}

static int changes_input(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context, (void)count, (void)argument;
  ((double *)views[0].data)[3] = -1.0;
  return 0;
}

static int leaves_last(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context, (void)count, (void)argument;
  double *x = views[0].data;
  for (size_t i = 0; i + 1 < views[0].count; i++) x[i] = 2.0;
  return 0;
}

static int writes_by_address(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context, (void)views, (void)count;
  (*(double **)argument)[20] = 5.0;
  return 0;
}

/* Runs a task on elements 10 to 30 of an array, and prints the failure, if there is one. */
static void report(tw_body body, tw_mode mode) {
  static double x[N];
  tw_runtime rt;
  tw_data data;
  OK(tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = "1:CPU:1"}, &rt));
  OK(tw_data_borrow(rt, x, TW_FLOAT64, 1, (size_t[]){N}, NULL, &data));
  OK(tw_submit(rt, &TW_TASK(.name = "t", .body = body, TW_ARGUMENT(double *, x),
                            TW_ACCESSES(tw_range(data, mode, 10, 30))), NULL));
  tw_status status = tw_wait(rt);
  CHECK(status == TW_OK || status == TW_FAILED);
  puts(status == TW_OK ? "ok" : tw_last_error());
  (void)tw_data_release(data);
  OK(tw_runtime_free(rt));
}

int main(void) {
  report(writes_past_region, TW_OUT);
  report(changes_input, TW_IN);
  report(leaves_last, TW_OUT);
  report(writes_by_address, TW_INOUT);
  return 0;
}
