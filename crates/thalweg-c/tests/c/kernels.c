/* Kernels from text: launched on OpenCL units, refused where they do not fit. The argument is the units. */
#include "check.h"

enum { N = 1000 };
static const char *TEXT =
    "KERNEL(64, 1, 1) axpy(double a, IN(double, x, n), INOUT(double, y, n), int n)\n"
    "{ REGION(x); REGION(y); int i = GLOBAL_ID(0); if (i < n) y[i] += a * x[i]; }\n";

static void launches(tw_runtime rt, tw_kernel axpy, tw_data x, tw_data y, tw_mode of_y, tw_argument a, int n) {
  OK(tw_submit(rt, &TW_TASK(.name = "axpy", TW_ACCESSES(tw_whole(x, TW_IN), tw_whole(y, of_y)),
                            TW_LAUNCHES({.kernel = axpy, .threads = {N},
                                         TW_ARGUMENTS(a, tw_region(0), tw_region(1), tw_int32(n))},
                                        {.kernel = axpy, .threads = {N},
                                         TW_ARGUMENTS(a, tw_region(0), tw_region(1), tw_int32(n))})), NULL));
}

int main(int argc, char **argv) {
  static double memory[N], found[N];
  tw_runtime rt;
  tw_kernel axpy, none = {0};
  tw_data x, y;
  REFUSED(TW_REFUSED, tw_kernel_new("axpy.cl", "KERNEL(64, 1, 1) axpy(double)", "other", &axpy), "axpy.cl");
  REFUSED(TW_INVALID, tw_kernel_new("axpy.cl", NULL, "axpy", &axpy), "null");
  OK(tw_kernel_new("axpy.cl", TEXT, "axpy", &axpy));
  OK(tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = argc > 1 ? argv[1] : "1:OPENCL:1"}, &rt));
  for (int i = 0; i < N; i++) memory[i] = i;
  OK(tw_data_borrow(rt, memory, TW_FLOAT64, 1, (size_t[]){N}, NULL, &x));
  OK(tw_data_zeros(rt, TW_FLOAT64, 1, (size_t[]){N}, &y));
  launches(rt, axpy, x, y, TW_INOUT, tw_float64(3), N);
  OK(tw_data_read(y, NULL, NULL, found, sizeof found));
  for (int i = 0; i < N; i++) CHECK(found[i] == 6.0 * i);

  launches(rt, axpy, x, y, TW_INOUT, tw_float32(3), N);
  CHECK(tw_wait(rt) == TW_FAILED && strstr(tw_last_error(), "argument 1 (`a`) is a number of float32") != NULL);
  OK(tw_data_write(y, NULL, NULL, found, sizeof found));
  launches(rt, axpy, x, y, TW_INOUT, tw_float64(3), N + 1);
  CHECK(tw_wait(rt) == TW_FAILED && strstr(tw_last_error(), "1001") != NULL);
  OK(tw_data_write(y, NULL, NULL, found, sizeof found));
  launches(rt, axpy, x, y, TW_IN, tw_float64(3), N);
  CHECK(tw_wait(rt) == TW_FAILED && strstr(tw_last_error(), "only reads") != NULL);
  REFUSED(TW_INVALID, tw_submit(rt, &TW_TASK(TW_LAUNCHES({.kernel = none})), NULL), "kernel is zero");
  REFUSED(TW_INVALID, tw_submit(rt, &TW_TASK(TW_LAUNCHES({.kernel = axpy, TW_ARGUMENTS(tw_region(0))})), NULL),
          "no access");
  OK(tw_kernel_free(axpy));
  REFUSED(TW_INVALID, tw_kernel_free(axpy), "released");
  OK(tw_data_release(x));
  OK(tw_data_release(y));
  OK(tw_runtime_free(rt));
  puts("ok");
  return 0;
}
