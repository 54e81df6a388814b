/* Checks of the test programs: a check that fails ends the program with its place. */
#ifndef CHECK_H
#define CHECK_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thalweg.h>

/* Lets absurd sizes fail under the sanitizer of addresses, as they do without it. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, tw_last_error()); \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)
#define OK(call) CHECK((call) == TW_OK)
/* Checks that a call is refused with a text that says what to try. */
#define REFUSED(status, call, part)                         \
  do {                                                      \
    CHECK((call) == (status));                              \
    CHECK(strncmp(tw_last_error(), "cannot ", 7) == 0);     \
    CHECK(strstr(tw_last_error(), "; try ") != NULL);       \
    CHECK(strstr(tw_last_error(), (part)) != NULL);         \
  } while (0)
#endif
