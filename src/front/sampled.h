/* Sampled guards: now and then an allocation, by chance, gets a block that is guarded as in no other process (guard/sample.h). */
#pragma once

#include "front/thread.h"
#include "guard/guard.h"
#include "guard/sample.h"

/* As many allocations are sampled as the options say now. */
void hk_sampled_apply(void);

/* The thread's next allocation as a sampled one, if it is its turn; else NULL. */
void *hk_sampled_malloc(hk_thread_t *thread, size_t n, size_t align, hk_by_t by);

/* Where samples are few and nothing else asks for a thread's trap: the same, *left bytes having been counted down, which
 * begin anew. Meanwhile *left is HK_TAKING_SAMPLE. */
#define HK_TAKING_SAMPLE ((void *)INTPTR_MAX)
void *hk_sampled_by_bytes(void **left, size_t n, size_t align, hk_by_t by);
