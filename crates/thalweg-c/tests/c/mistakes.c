/* Mistakes: each is refused with a text, and nothing changes. */
#include "check.h"

static int body(tw_context *context, const tw_view *views, size_t count, void *argument) {
  (void)context, (void)views, (void)count, (void)argument;
  return 3;
}

int main(void) {
  tw_runtime rt, other, none = {0};
  tw_data x, y, unknown = {12345};
  size_t four[] = {4}, huge[] = {(size_t)1 << 62, 8};
  float memory[4] = {1, 2, 3, 4}, part[2];
  CHECK(tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = "no units"}, &rt) == TW_REFUSED);
  REFUSED(TW_INVALID, tw_runtime_new(&(tw_options){.size = 1}, &rt), "size of 1");
  REFUSED(TW_INVALID, tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = "\xff"}, &rt), "UTF-8");
  REFUSED(TW_INVALID, tw_runtime_new(NULL, NULL), "null");
  OK(tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = "1:CPU:1"}, &rt));
  OK(tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = "1:CPU:1"}, &other));
  REFUSED(TW_INVALID, tw_wait(none), "zero");

  /* Data objects. */
  REFUSED(TW_INVALID, tw_data_zeros(rt, 99, 1, four, &x), "99");
  REFUSED(TW_INVALID, tw_data_zeros(rt, TW_INT8, 5, four, &x), "5 dimensions");
  REFUSED(TW_INVALID, tw_data_zeros(rt, TW_INT8, 1, NULL, &x), "shape");
  REFUSED(TW_REFUSED, tw_data_zeros(rt, TW_INT8, 2, huge, &x), "overflows");
  REFUSED(TW_REFUSED, tw_data_zeros_of_size(rt, 0, 1, four, &x), "no bytes");
  REFUSED(TW_INVALID, tw_data_borrow_of_size(rt, memory, 0, 1, four, NULL, &x), "no size");
  REFUSED(TW_REFUSED, tw_data_borrow_of_size(rt, (char *)memory + 4, 8, 1, (size_t[]){1}, NULL, &x), "aligned to 8");
  OK(tw_data_borrow(rt, memory, TW_FLOAT32, 1, four, NULL, &x));
  CHECK(tw_data_borrow(rt, memory + 1, TW_FLOAT32, 1, (size_t[]){2}, NULL, &y) == TW_REFUSED);
  CHECK(strstr(tw_last_error(), "overlaps") != NULL);
  CHECK(tw_data_borrow(rt, NULL, TW_FLOAT32, 1, four, NULL, &y) == TW_REFUSED);
  CHECK(tw_data_borrow(rt, (char *)part + 1, TW_FLOAT32, 1, (size_t[]){1}, NULL, &y) == TW_REFUSED);

  /* Regions. */
  REFUSED(TW_INVALID, tw_data_read(x, four, NULL, memory, 16), "both or none");
  REFUSED(TW_INVALID, tw_data_read(x, (size_t[]){3}, (size_t[]){2}, part, 8), "not in");
  REFUSED(TW_INVALID, tw_data_read(x, (size_t[]){3}, (size_t[]){5}, part, 8), "not in");
  REFUSED(TW_INVALID, tw_data_read(x, NULL, NULL, part, 8), "16");
  REFUSED(TW_REFUSED, tw_data_write(x, NULL, NULL, part, 8), "16");
  REFUSED(TW_INVALID, tw_data_read(unknown, NULL, NULL, part, 8), "released");

  /* Tasks. */
  REFUSED(TW_INVALID, tw_submit(rt, NULL, NULL), "null");
  REFUSED(TW_INVALID, tw_submit(rt, &(tw_task){.body = body}, NULL), "size of 0");
  REFUSED(TW_INVALID, tw_submit(rt, &TW_TASK(.name = "t"), NULL), "body");
  REFUSED(TW_INVALID, tw_submit(rt, &TW_TASK(.body = body, .count = 1), NULL), "accesses are null");
  REFUSED(TW_INVALID, tw_submit(rt, &TW_TASK(.body = body, TW_ACCESSES(tw_whole(unknown, TW_IN))), NULL), "released");
  REFUSED(TW_INVALID, tw_submit(rt, &TW_TASK(.body = body, TW_ACCESSES(tw_whole(x, (tw_mode)77))), NULL), "77");
  REFUSED(TW_REFUSED, tw_submit(rt, &TW_TASK(.body = body, TW_ACCESSES(tw_range(x, TW_IN, 2, 5))), NULL), "bounds");
  REFUSED(TW_INVALID, tw_submit(rt, &TW_TASK(.body = body, TW_ACCESSES(tw_block(x, TW_IN, 0, 1, 0, 1))), NULL),
          "2 dimensions");
  REFUSED(TW_REFUSED, tw_submit(other, &TW_TASK(.body = body, TW_ACCESSES(tw_whole(x, TW_IN))), NULL), "another");
  REFUSED(TW_REFUSED, tw_submit(rt, &TW_TASK(.body = body, .cost = -1.0), NULL), "cost");
  REFUSED(TW_REFUSED,
          tw_submit(rt, &TW_TASK(.body = body, TW_ACCESSES(tw_range(x, TW_OUT, 0, 3), tw_range(x, TW_IN, 2, 4))), NULL),
          "overlap");
  REFUSED(TW_INVALID, tw_submit_child(NULL, &TW_TASK(.body = body), NULL), "context");
  REFUSED(TW_INVALID, tw_wait_timeout(rt, -1.0), "-1");
  OK(tw_wait(rt));

  /* A name is read anew, even from an address that had another one. */
  const char *names[] = {"text", "texts", "tex", "text"};
  char name[8], quoted[16];
  for (int i = 0; i < 4; i++) {
    strcpy(name, names[i]);
    sprintf(quoted, "`%s`", name);
    REFUSED(TW_REFUSED, tw_submit(rt, &TW_TASK(.name = name, .body = body, .cost = -1.0), NULL), quoted);
  }

  /* A body that returns another number than 0 fails; borrowed memory comes back even then. */
  OK(tw_submit(rt, &TW_TASK(.name = "t", .body = body, TW_ACCESSES(tw_whole(x, TW_INOUT))), NULL));
  CHECK(tw_wait(rt) == TW_FAILED && strstr(tw_last_error(), "returned 3") != NULL);
  CHECK(tw_data_release(x) == TW_FAILED);
  REFUSED(TW_INVALID, tw_data_release(x), "released");
  memory[0] = 5;

  /* Data objects outlive their runtime's handle, which is refused afterwards. */
  OK(tw_data_zeros(other, TW_INT8, 1, four, &y));
  OK(tw_runtime_free(other));
  REFUSED(TW_INVALID, tw_runtime_free(other), "released");
  REFUSED(TW_INVALID, tw_submit(other, &TW_TASK(.body = body, TW_ACCESSES(tw_whole(y, TW_IN))), NULL), "runtime was");
  OK(tw_data_release(y));
  OK(tw_runtime_free(rt));
  puts("ok");
  return 0;
}
