/* What the files of this box share: visibility, and what C++ needs of C. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* no_icf: the linker must not fold equal entry points into one address (src/api/malloc.c). */
#if __has_attribute(no_icf)
#define HK_EXPORT __attribute__((visibility("default"), no_icf))
#else
#define HK_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* operator new after a failure (src/api/cxx.cc): calls the new-handler and retries as long as there
 * is one, then throws bad_alloc. */
void *hk_new_failed(size_t n, size_t align, unsigned by);

/* Throws bad_alloc if the program has the C++ runtime, else returns. The archive defines it
 * (shared/throw.cc); NULL elsewhere. */
__attribute__((weak, visibility("hidden"))) void hk_throw_bad_alloc(void);

/* Calls a throwing form, `form` or else `aligned`, or hk_new_failed() if both are NULL, and returns
 * its result; NULL if it throws. */
void *hk_new_caught(void *(*form)(size_t), void *(*aligned)(size_t, size_t), size_t n, size_t align,
                    unsigned by, bool array);

/* Repeated from front/boundary.h and os/symbols.h, which C++ cannot include. */
void *hk_aligned_slow(size_t n, size_t align, unsigned by);
bool hk_is_cxx_library(const char *object);
void *hk_symbol_of_others(const char *name, bool (*skips)(const char *object));

/* Whether the program's malloc is this library's. */
bool hk_is_serving(void);

/* This library's malloc, where it exports one; `malloc` is the one that serves the process. */
void *hk_own_malloc(size_t n);

/* Applies the options about the limit from now on. If `starts`, the process is starting: warns in
 * one line if a limit cannot be had. */
void hk_limit_apply(bool starts);

#ifdef __cplusplus
}
#endif
