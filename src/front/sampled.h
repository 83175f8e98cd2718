/* Sampled guards: a few allocations, chosen at random, get a page of their own between inaccessible
 * ones (guard/sample.h). */
#pragma once

#include "front/thread.h"
#include "guard/guard.h"
#include "guard/sample.h"

/* From now on so many allocations are sampled as the options say. */
void hk_sampled_apply(void);

/* The thread's next allocation: a sampled block if it is the turn of one, else NULL. */
void *hk_sampled_malloc(hk_thread_t *thread, size_t n, size_t align, hk_by_t by);
