/* A pipeline: frames are made, filtered and logged. Several frames are in flight, while the log stays in order, because
 * each `log` task updates it. */
#include "example.h"

enum { FRAMES = 40, SIZE = 1000, SLOTS = 4 };

static void make_frame(int *frame, int number) {
  for (int i = 0; i < SIZE; i++) frame[i] = number * 7919 + i;
}
static void filter_frame(const int *from, int *to) {
  for (int i = 0; i < SIZE; i++) to[i] = from[i] ^ (from[(i + 1) % SIZE] >> 1);
}
static int digest(const int *frame) {
  unsigned hash = 17;
  for (int i = 0; i < SIZE; i++) hash = hash * 31 + (unsigned)frame[i];
  return (int)hash;
}

BODY(make) {
  UNUSED;
  make_frame(views[0].data, *(int *)argument);
  return 0;
}
BODY(filter) {
  UNUSED;
  filter_frame(views[0].data, views[1].data);
  return 0;
}
BODY(log_frame) { /* the log begins with the number of its entries */
  UNUSED;
  int *entries = views[1].data;
  entries[++entries[0]] = digest(views[0].data);
  return 0;
}

int main(void) {
  static int log[FRAMES + 1], expected[FRAMES + 1], raw[SIZE], filtered[SIZE];
  for (int n = 0; n < FRAMES; n++) {
    make_frame(raw, n);
    filter_frame(raw, filtered);
    expected[++expected[0]] = digest(filtered);
  }

  tw_runtime rt = start("2:CPU:1");
  tw_data data, from[SLOTS], to[SLOTS];
  OK(tw_data_borrow(rt, log, TW_INT32, 1, (size_t[]){FRAMES + 1}, NULL, &data));
  for (int k = 0; k < SLOTS; k++) {
    OK(tw_data_zeros(rt, TW_INT32, 1, (size_t[]){SIZE}, &from[k]));
    OK(tw_data_zeros(rt, TW_INT32, 1, (size_t[]){SIZE}, &to[k]));
  }
  for (int n = 0; n < FRAMES; n++) {
    tw_data a = from[n % SLOTS], b = to[n % SLOTS];
    OK(tw_submit(rt, &TW_TASK(.name = "make", .body = make, TW_ARGUMENT(int, n), TW_ACCESSES(tw_whole(a, TW_OUT))), NULL));
    OK(tw_submit(rt, &TW_TASK(.name = "filter", .body = filter, TW_ACCESSES(tw_whole(a, TW_IN), tw_whole(b, TW_OUT))),
                 NULL));
    OK(tw_submit(rt, &TW_TASK(.name = "log", .body = log_frame, TW_ACCESSES(tw_whole(b, TW_IN), tw_whole(data, TW_INOUT))),
                 NULL));
  }
  OK(tw_data_release(data));
  for (int k = 0; k < SLOTS; k++) {
    OK(tw_data_release(from[k]));
    OK(tw_data_release(to[k]));
  }
  OK(tw_runtime_free(rt));
  puts(memcmp(log, expected, sizeof log) == 0 ? "VERIFIED" : "WRONG");
  return 0;
}
