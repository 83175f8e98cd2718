/* Call stacks. Any thread, also in signal handlers; no lock of ours is held or taken. */
#pragma once

#include "base/base.h"

/* Prepares the unwinder, so that nothing is allocated later. The libraries contain one; elsewhere
 * libgcc_s.so.1 is loaded, which allocates. False: there is none. */
bool hk_stack_prepare(void);

/* Puts at most `most` return addresses into `frames`, the innermost first, from the program's call
 * of the allocator on (if hakmem is linked statically: with hakmem's own frames before that).
 * Returns how many; 0 without an unwinder. */
unsigned hk_stack_read(void **frames, unsigned most);

/* Writes a line for each frame to stderr, with names where the C library finds them. */
void hk_stack_print(void *const *frames, unsigned count);

/* Copies n bytes from any address; false: they cannot be read. Keeps errno. */
bool hk_os_peek(void *to, uintptr_t from, size_t n);
