/* The emergency heap: what a signal handler gets that interrupts its own thread inside the
 * boundary, where no lock may be taken. Each block is a mapping of its own and nothing is locked,
 * so malloc in such a handler works, if slowly, instead of deadlocking. */
#ifndef HK_FRONT_EMERGENCY_H
#define HK_FRONT_EMERGENCY_H

#include "base/base.h"

/* n bytes aligned to `align`, a power of two; NULL: out of memory, or an alignment above 32 KiB.
 * Reads as zero. */
void *hk_emergency_alloc(size_t n, size_t align);

/* Frees a block of kind HK_KIND_EMERGENCY. */
void hk_emergency_free(void *p);

size_t hk_emergency_usable(const void *p);

/* Puts off the free of any block; 64 at most can wait, more are leaked. */
void hk_emergency_defer(void *p);

/* Whether any block waits, cheaply; and one of them, or NULL. */
extern atomic_uint hk_emergency_count;
HK_INLINE bool hk_emergency_waiting(void) { return hk_load_relaxed(&hk_emergency_count) != 0; }
void *hk_emergency_deferred(void);

/* What there is now: blocks, and the bytes of their mappings. Any thread. */
typedef struct {
    size_t blocks, bytes;
} hk_emergency_stats_t;
hk_emergency_stats_t hk_emergency_stats(void);

#endif
