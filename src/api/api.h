/* What the entry points share: visibility, and the arithmetic of sizes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Two entry points that do the same are not to be folded into one address (src/api/malloc.c). */
#if __has_attribute(no_icf)
#define HK_EXPORT __attribute__((visibility("default"), no_icf))
#else
#define HK_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* operator new after a failure (src/api/cxx.cc): runs the new-handler as long as there is one, then
 * throws bad_alloc. */
void *hk_new_failed(size_t n, size_t align, unsigned by);

/* Throws bad_alloc where the C++ runtime is in the program, or returns. In the archive (shared/throw.cc); NULL elsewhere. */
__attribute__((weak, visibility("hidden"))) void hk_throw_bad_alloc(void);

/* What one of the forms that throw returns, the aligned one where the other is NULL, or hk_new_failed() where both are; NULL
 * if it throws. */
void *hk_new_caught(void *(*form)(size_t), void *(*aligned)(size_t, size_t), size_t n, size_t align,
                    unsigned by, bool array);

/* As front/boundary.h and os/symbols.h have them, to whose types C++ is blind. */
void *hk_aligned_slow(size_t n, size_t align, unsigned by);
bool hk_is_cxx_library(const char *object);
void *hk_symbol_of_others(const char *name, bool (*skips)(const char *object));

/* Whether malloc, as the program has it, is this library's. */
bool hk_is_serving(void);

/* This library's malloc, where it exports one: `malloc` means that which serves the process. */
void *hk_own_malloc(size_t n);

/* What the options say about a limit holds from now on. When the process `starts`, one that cannot be had gets a
 * line. */
void hk_limit_apply(bool starts);

#ifdef __cplusplus
}
#endif
