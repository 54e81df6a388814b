/* Tasks on borrowed and own data: order, regions, reductions, children, groups, failures. */
#include "check.h"
#include <thalweg.h> /* a second time: the header guards itself */

enum { N = 1000, BLOCK = 100 };

static int scale(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context;
  CHECK(count == 1 && views[0].ndim == 1 && views[0].element_bytes == sizeof(double) && views[0].is_writable);
  double *x = views[0].data;
  for (size_t i = 0; i < views[0].count; i++) x[i] *= *(const double *)argument;
  return 0;
}

static int sum(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context, (void)argument;
  CHECK(count == 2 && !views[0].is_writable);
  const double *x = views[0].data;
  double *total = views[1].data;
  for (size_t i = 0; i < views[0].count; i++) *total += x[i];
  return 0;
}

static int column(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context, (void)count, (void)argument;
  for (size_t i = 0; i < views[0].shape[0]; i++) ((int *)views[0].data)[i * views[0].strides[0]] = 7;
  return 0;
}

static int fails(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)views, (void)count, (void)argument;
  return tw_fail(context, "the disk is full");
}

static int increment(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context, (void)count, (void)argument;
  *(long long *)views[0].data += 1;
  return 0;
}

static int parent(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)views, (void)count;
  for (int i = 0; i < 10; i++) {
    OK(tw_submit_child(context, &TW_TASK(.name = "child", .body = increment,
                                         TW_ACCESSES(tw_whole(*(tw_data *)argument, TW_INOUT))), NULL));
  }
  OK(tw_wait_children(context));
  return 0;
}

static void count_down(void *argument) { __atomic_fetch_sub(*(int **)argument, 1, __ATOMIC_SEQ_CST); }
static int nothing(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context, (void)views, (void)count, (void)argument;
  return 0;
}

static void run(const char *units) {
  tw_runtime rt;
  OK(tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = units}, &rt));
  static double x[N];
  for (int i = 0; i < N; i++) x[i] = i;
  tw_data data, total, flag;
  OK(tw_data_borrow(rt, x, TW_FLOAT64, 1, (size_t[]){N}, NULL, &data));
  OK(tw_data_set_name(data, "x"));
  OK(tw_data_zeros(rt, TW_FLOAT64, 1, (size_t[]){1}, &total));
  tw_group group;
  OK(tw_group_new(rt, &group));
  for (size_t lo = 0; lo < N; lo += BLOCK) {
    OK(tw_submit(rt, &TW_TASK(.name = "scale", .body = scale, .group = group, TW_ARGUMENT(double, 2.0),
                              TW_ACCESSES(tw_range(data, TW_INOUT, lo, lo + BLOCK))), NULL));
    OK(tw_submit(rt, &TW_TASK(.name = "sum", .body = sum, .priority = 1,
                              TW_ACCESSES(tw_range(data, TW_IN, lo, lo + BLOCK), tw_whole(total, TW_SUM))), NULL));
  }
  OK(tw_group_wait(group));
  OK(tw_group_free(group));
  double result;
  OK(tw_data_read(total, NULL, NULL, &result, sizeof result));
  CHECK(result == (double)N * (N - 1));
  OK(tw_data_release(data)); /* from here on, the array is ours again */
  for (int i = 0; i < N; i++) CHECK(x[i] == 2.0 * i);

  /* A column of a matrix with gaps between its rows. */
  int matrix[4][8] = {{0}};
  OK(tw_data_borrow(rt, matrix, TW_INT32, 2, (size_t[]){4, 5}, (size_t[]){8, 1}, &data));
  OK(tw_submit(rt, &TW_TASK(.name = "column", .body = column, TW_ACCESSES(tw_block(data, TW_OUT, 0, 4, 2, 3))), NULL));
  OK(tw_data_release(data));
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 8; j++) CHECK(matrix[i][j] == (j == 2 ? 7 : 0));

  /* A failure with its text; its reader is skipped; writing the value mends it. */
  tw_submitted task;
  OK(tw_data_zeros(rt, TW_INT64, 1, (size_t[]){1}, &flag));
  OK(tw_submit(rt, &TW_TASK(.name = "store", .body = fails, TW_ACCESSES(tw_whole(flag, TW_OUT))), &task));
  CHECK(tw_submitted_wait(task) == TW_FAILED && strstr(tw_last_error(), "the disk is full") != NULL);
  char place[64];
  snprintf(place, sizeof place, "tasks.c:%d", __LINE__ - 3);
  CHECK(strstr(tw_last_error(), place) != NULL);
  OK(tw_submitted_free(task));
  long long number = 0;
  CHECK(tw_data_read(flag, NULL, NULL, &number, sizeof number) == TW_FAILED);
  CHECK(strstr(tw_last_error(), "`store`") != NULL);
  OK(tw_data_write(flag, NULL, NULL, &(long long){5}, sizeof number));
  OK(tw_submit(rt, &TW_TASK(.name = "parent", .body = parent, .host_only = true, TW_ARGUMENT(tw_data, flag.id),
                            TW_ACCESSES(tw_whole(flag, TW_WEAK_INOUT))), NULL));
  OK(tw_data_read(flag, NULL, NULL, &number, sizeof number));
  CHECK(number == 15);

  /* Destructors run once per task, for tasks that ran, were skipped, or were refused. */
  static int alive;
  alive = 102;
  int *counter = &alive;
  for (int i = 0; i < 100; i++)
    OK(tw_submit(rt, &TW_TASK(.body = nothing, .destructor = count_down, TW_ARGUMENT(int *, counter)), NULL));
  OK(tw_group_new(rt, &group));
  OK(tw_group_cancel(group));
  CHECK(tw_submit(rt, &TW_TASK(.body = nothing, .group = group, .destructor = count_down, TW_ARGUMENT(int *, counter)),
                  NULL) == TW_REFUSED);
  CHECK(tw_submit(rt, &TW_TASK(.body = NULL, .destructor = count_down, TW_ARGUMENT(int *, counter)), NULL) ==
        TW_INVALID);
  OK(tw_group_free(group));
  OK(tw_wait_timeout(rt, 60.0));
  OK(tw_data_release(flag));
  OK(tw_data_release(total));
  OK(tw_runtime_free(rt));
  CHECK(__atomic_load_n(&alive, __ATOMIC_SEQ_CST) == 0);
}

/* Tasks of an iteration space, as schedulers distribute them. */
static void spaces(void) {
  tw_runtime rt;
  tw_space space;
  tw_data data[4];
  OK(tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = "2:CPU:1", .scheduler = "static"}, &rt));
  OK(tw_space_new("zones", (double[]){1, 2, 3, 4}, 4, &space));
  for (int i = 0; i < 4; i++) OK(tw_data_zeros(rt, TW_INT64, 1, (size_t[]){1}, &data[i]));
  for (int step = 0; step < 3; step++) {
    OK(tw_space_begin(space));
    for (size_t i = 0; i < 4; i++) {
      OK(tw_submit(rt, &TW_TASK(.name = "zone", .body = increment, .space = space, .index = i,
                                TW_ACCESSES(tw_whole(data[i], TW_INOUT))), NULL));
    }
  }
  for (int i = 0; i < 4; i++) {
    long long number;
    OK(tw_data_read(data[i], NULL, NULL, &number, sizeof number));
    CHECK(number == 3);
    OK(tw_data_release(data[i]));
  }
  OK(tw_space_free(space));
  OK(tw_runtime_free(rt));
}

int main(void) {
  CHECK(tw_abi_version() == TW_ABI_VERSION);
  run("1:CPU:1");
  run("2:CPU:1");
  run("1:CPU:1,1:EMU:1");
  spaces();
  puts("ok");
  return 0;
}
