/* A worker: a thread of the allocator's own, which the program does not notice. */
#pragma once

#include "base/base.h"

/* Starts run(NULL) on a small stack, detached and with all signals blocked. 0, or what
 * pthread_create() says. Allocates (the C library does), so no lock may be held. */
int hk_worker_start(void *(*run)(void *));
