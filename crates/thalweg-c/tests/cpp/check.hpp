/* Checks of the test programs: a check that fails ends the program with its place. */
#ifndef CHECK_HPP
#define CHECK_HPP
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thalweg.hpp>

/* Lets absurd sizes fail under the sanitizer of addresses, as they do without it. */
extern "C" const char *__asan_default_options();
extern "C" const char *__asan_default_options() { return "allocator_may_return_null=1"; }

#define CHECK(condition)                                                \
  do {                                                                  \
    if (!(condition)) {                                                 \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                     \
    }                                                                   \
  } while (0)
/* Checks that a statement throws an error of this type whose text contains a part. */
#define THROWS(type, part, ...)                                              \
  do {                                                                       \
    std::string text;                                                        \
    try {                                                                    \
      __VA_ARGS__;                                                           \
    } catch (const type &thrown) {                                           \
      text = thrown.what();                                                  \
    }                                                                        \
    if (text.find(part) == std::string::npos) {                              \
      std::fprintf(stderr, "%s:%d: \"%s\"\n", __FILE__, __LINE__, text.c_str()); \
      std::exit(1);                                                          \
    }                                                                        \
  } while (0)
#endif
