/* Empty tasks through C: `empty TASKS` prints the nanoseconds per task. */
#include <stdio.h>
#include <stdlib.h>
#include <thalweg.h>
#include <time.h>

static int empty(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context, (void)views, (void)count, (void)argument;
  return 0;
}

int main(int argc, char **argv) {
  long tasks = argc > 1 ? atol(argv[1]) : 1;
  tw_runtime rt;
  tw_data data[64];
  struct timespec begin, end;
  if (tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = "1:CPU:1"}, &rt) != TW_OK) return 1;
  for (int i = 0; i < 64; i++) tw_data_zeros(rt, TW_FLOAT64, 1, (size_t[]){8}, &data[i]);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (long i = 0; i < tasks; i++) {
    tw_submit(rt, &TW_TASK(.name = "empty", .body = empty, TW_ACCESSES(tw_whole(data[i % 64], TW_INOUT))), NULL);
  }
  if (tw_wait(rt) != TW_OK) return 1;
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("%g\n", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / tasks);
  return tw_runtime_free(rt);
}
