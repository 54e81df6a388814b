/* Bodies that return late, that call back into the library, and absurd sizes; handles that were released. */
#include "check.h"
#include <pthread.h>
#include <stdint.h>

static int gate;

static int late(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context, (void)argument;
  while (!__atomic_load_n(&gate, __ATOMIC_ACQUIRE)) {}
  for (size_t i = 0; i < count; i++) ((double *)views[i].data)[0] = 7;
  return 0;
}

static int nothing(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context, (void)views, (void)count, (void)argument;
  return 0;
}

/* Opens the gate of a task that the main thread waits for by now. */
static void *open_later(void *argument) {
  OK(tw_submitted_wait_timeout(*(tw_submitted *)argument, 0.05) == TW_TIMEOUT ? TW_OK : TW_FAILED);
  __atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
  return NULL;
}

static void returns_late(void) {
  tw_runtime rt;
  tw_group group;
  tw_submitted task;
  tw_data data;
  double x[4] = {0};
  pthread_t thread;
  OK(tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = "2:CPU:1"}, &rt));
  OK(tw_group_new(rt, &group));
  OK(tw_data_borrow(rt, x, TW_FLOAT64, 1, (size_t[]){4}, NULL, &data));
  OK(tw_submit(rt, &TW_TASK(.body = late, .group = group, TW_ACCESSES(tw_range(data, TW_INOUT, 0, 1))), &task));
  CHECK(tw_submitted_wait_timeout(task, 0.0) == TW_TIMEOUT);
  CHECK(tw_submitted_wait_timeout(task, 0.01) == TW_TIMEOUT && strstr(tw_last_error(), "0.01 s") != NULL);
  CHECK(tw_group_wait_timeout(group, 0.01) == TW_TIMEOUT);
  CHECK(tw_wait_timeout(rt, 0.01) == TW_TIMEOUT);
  REFUSED(TW_INVALID, tw_submitted_wait_timeout(task, -1.0), "-1");
  REFUSED(TW_INVALID, tw_group_wait_timeout(group, 0.0 / x[1]), "NaN");
  CHECK(pthread_create(&thread, NULL, open_later, &task) == 0);
  OK(tw_data_release(data)); /* waits for the body */
  CHECK(x[0] == 7);
  x[0] = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  OK(tw_submitted_wait_timeout(task, 1e300));
  OK(tw_group_wait_timeout(group, 60.0));
  __atomic_store_n(&gate, 0, __ATOMIC_RELEASE);

  /* Handles that were released. */
  OK(tw_submitted_free(task));
  OK(tw_group_free(group));
  REFUSED(TW_INVALID, tw_submitted_wait_timeout(task, 1.0), "released");
  REFUSED(TW_INVALID, tw_submitted_free(task), "released");
  REFUSED(TW_INVALID, tw_group_wait_timeout(group, 1.0), "released");
  REFUSED(TW_INVALID, tw_group_cancel(group), "released");
  REFUSED(TW_INVALID, tw_submit(rt, &TW_TASK(.body = nothing, .group = group), NULL), "released");
  REFUSED(TW_INVALID, tw_data_write(data, NULL, NULL, x, sizeof x), "released");
  REFUSED(TW_INVALID, tw_data_set_name(data, "x"), "released");
  OK(tw_runtime_free(rt));
  REFUSED(TW_INVALID, tw_submit(rt, &TW_TASK(.body = nothing), NULL), "released");
  REFUSED(TW_INVALID, tw_data_zeros(rt, TW_INT8, 1, (size_t[]){4}, &data), "released");
}

struct objects {
  tw_runtime rt;
  tw_data own, borrowed, other;
  tw_submitted task;
};

/* Calls of a body that would wait for it, or take away what it uses, are refused; all others work. */
static int calls_back(tw_context *context, const tw_view *views, size_t count, void *argument) {
  struct objects *all = *(struct objects **)argument;
  double number = 3;
  (void)views, (void)count;
  REFUSED(TW_REFUSED, tw_wait(all->rt), "inside");
  REFUSED(TW_REFUSED, tw_wait_timeout(all->rt, 0.01), "inside");
  REFUSED(TW_REFUSED, tw_submitted_wait_timeout(all->task, 0.01), "inside");
  CHECK(tw_submitted_wait(all->task) == TW_REFUSED);
  REFUSED(TW_REFUSED, tw_runtime_free(all->rt), "inside");
  CHECK(tw_data_read(all->own, NULL, NULL, &number, sizeof number) == TW_REFUSED);
  CHECK(tw_data_write(all->own, NULL, NULL, &number, sizeof number) == TW_REFUSED);
  CHECK(tw_data_release(all->borrowed) == TW_REFUSED);
  CHECK(tw_submit(all->rt, &TW_TASK(.body = nothing, TW_ACCESSES(tw_whole(all->own, TW_IN))), NULL) == TW_REFUSED);
  OK(tw_data_write(all->other, NULL, NULL, &number, sizeof number));
  OK(tw_submit(all->rt, &TW_TASK(.body = nothing, TW_ACCESSES(tw_whole(all->other, TW_INOUT))), NULL));
  OK(tw_submit_child(context, &TW_TASK(.body = nothing), NULL));
  return 0;
}

static void back(const char *units) {
  struct objects all, *address = &all;
  double x = 1, found;
  OK(tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = units}, &all.rt));
  OK(tw_data_zeros(all.rt, TW_FLOAT64, 1, (size_t[]){1}, &all.own));
  OK(tw_data_zeros(all.rt, TW_FLOAT64, 1, (size_t[]){1}, &all.other));
  OK(tw_data_borrow(all.rt, &x, TW_FLOAT64, 1, (size_t[]){1}, NULL, &all.borrowed));
  /* The first task lets the second one begin once its handle is known. */
  OK(tw_submit(all.rt, &TW_TASK(.body = late, TW_ACCESSES(tw_whole(all.own, TW_OUT))), NULL));
  OK(tw_submit(all.rt, &TW_TASK(.body = calls_back, .host_only = true, TW_ARGUMENT(struct objects *, address),
                                TW_ACCESSES(tw_whole(all.own, TW_INOUT), tw_whole(all.borrowed, TW_INOUT))),
               &all.task));
  __atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
  OK(tw_wait(all.rt));
  __atomic_store_n(&gate, 0, __ATOMIC_RELEASE);
  OK(tw_data_read(all.other, NULL, NULL, &found, sizeof found));
  CHECK(found == 3);
  OK(tw_submitted_free(all.task));
  OK(tw_data_release(all.borrowed));
  OK(tw_data_release(all.own));
  OK(tw_data_release(all.other));
  OK(tw_runtime_free(all.rt));
}

static void absurd(void) {
  static double memory[4];
  double weight = 1;
  tw_runtime rt;
  tw_data data, x;
  tw_space space;
  tw_access access;
  const size_t most = SIZE_MAX, four[] = {4}, odd[] = {SIZE_MAX}, far[] = {SIZE_MAX / 8}, large[] = {(size_t)1 << 50};
  CHECK(tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = "99999999:CPU:1"}, &rt) == TW_REFUSED);
  CHECK(tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = "1:CPU:99999999999999999999"}, &rt) ==
        TW_REFUSED);
  OK(tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = "1:CPU:1", .max_pending_tasks = SIZE_MAX}, &rt));
  REFUSED(TW_REFUSED, tw_data_zeros(rt, TW_FLOAT64, 1, odd, &data), "; try");
  REFUSED(TW_REFUSED, tw_data_zeros(rt, TW_FLOAT64, 1, large, &data), "; try");
  REFUSED(TW_REFUSED, tw_data_zeros_of_size(rt, SIZE_MAX, 1, four, &data), "; try");
  REFUSED(TW_INVALID, tw_data_zeros(rt, TW_FLOAT64, SIZE_MAX, four, &data), "dimensions");
  CHECK(tw_data_borrow(rt, memory, TW_FLOAT64, 1, odd, NULL, &data) == TW_REFUSED);
  CHECK(tw_data_borrow(rt, memory, TW_FLOAT64, 1, far, NULL, &data) == TW_REFUSED);
  CHECK(tw_data_borrow(rt, memory, TW_FLOAT64, 1, four, odd, &data) == TW_REFUSED);
  CHECK(tw_data_borrow(rt, memory, TW_FLOAT64, 1, four, far, &data) == TW_REFUSED);
  CHECK(tw_data_borrow_of_size(rt, memory, SIZE_MAX, 1, four, NULL, &data) != TW_OK);
  OK(tw_data_borrow(rt, memory, TW_FLOAT64, 1, four, NULL, &data));
  REFUSED(TW_INVALID, tw_data_read(data, NULL, NULL, memory, SIZE_MAX), "32");
  REFUSED(TW_REFUSED, tw_data_write(data, NULL, NULL, memory, 0), "32");
  access = tw_range(data, TW_IN, most - 1, most);
  CHECK(tw_submit(rt, &TW_TASK(.body = nothing, .accesses = &access, .count = 1), NULL) == TW_REFUSED);
  access = tw_range(data, TW_IN, most, 0);
  CHECK(tw_submit(rt, &TW_TASK(.body = nothing, .accesses = &access, .count = 1), NULL) == TW_REFUSED);
  access.ndim = UINT32_MAX;
  REFUSED(TW_INVALID, tw_submit(rt, &TW_TASK(.body = nothing, .accesses = &access, .count = 1), NULL), "4294967295");
  REFUSED(TW_INVALID, tw_submit(rt, &TW_TASK(.body = nothing, .accesses = &access, .count = SIZE_MAX), NULL),
          "no array has");
  REFUSED(TW_INVALID, tw_submit(rt, &TW_TASK(.body = nothing, .argument = memory, .argument_bytes = SIZE_MAX), NULL),
          "1048576");
  REFUSED(TW_INVALID, tw_submit(rt, &TW_TASK(.body = nothing, .argument_bytes = 8), NULL), "8 bytes");
  REFUSED(TW_REFUSED, tw_submit(rt, &TW_TASK(.body = nothing, .cost = 0.0 / memory[0]), NULL), "cost");
  REFUSED(TW_INVALID, tw_space_new("space", &weight, SIZE_MAX, &space), "no array has");
  OK(tw_space_new("space", &weight, 1, &space));
  OK(tw_space_begin(space));
  CHECK(tw_submit(rt, &TW_TASK(.body = nothing, .space = space, .index = SIZE_MAX), NULL) != TW_OK);
  OK(tw_space_free(space));
  OK(tw_data_zeros(rt, TW_INT8, 1, (size_t[]){0}, &x));
  OK(tw_data_release(x));
  OK(tw_submit(rt, &TW_TASK(.body = nothing, .priority = INT32_MIN), NULL));
  OK(tw_data_release(data));
  OK(tw_runtime_free(rt));
}

int main(void) {
  returns_late();
  back("1:CPU:1");
  back("2:CPU:1");
  absurd();
  puts("ok");
  return 0;
}
