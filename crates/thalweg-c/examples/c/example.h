/* What the examples share: a call that fails ends the program with its text. */
#ifndef EXAMPLE_H
#define EXAMPLE_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thalweg.h>

#define OK(call)                                                        \
  do {                                                                  \
    if ((call) != TW_OK) {                                              \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, tw_last_error()); \
      exit(1);                                                          \
    }                                                                   \
  } while (0)
#define BODY(name) static int name(tw_context *context, const tw_view *views, size_t count, void *argument)
/* Bodies that use few of their parameters begin with it. */
#define UNUSED (void)context, (void)views, (void)count, (void)argument

static inline tw_runtime start(const char *units) {
  tw_runtime rt;
  OK(tw_runtime_new(&(tw_options){.size = sizeof(tw_options), .units = units}, &rt));
  return rt;
}
#endif
