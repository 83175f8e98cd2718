/* The emergency heap serves threads that may take no lock: a signal handler that interrupted its
 * own thread inside the boundary, and any thread while another one forks. Each block is a mapping
 * of its own and nothing is locked, so malloc works there, if slowly. */
#pragma once

#include "base/base.h"

/* n bytes aligned to `align`, a power of two, neither above HK_MOST_BYTES (backend/large.h); NULL:
 * out of memory. Reads as zero. */
void *hk_emergency_alloc(size_t n, size_t align);

/* Frees a block of kind HK_KIND_EMERGENCY. */
void hk_emergency_free(void *p);

size_t hk_emergency_usable(const void *p);
