/* Stacks: who called. Any thread, also in signal handlers; no lock of ours is held or taken. */
#pragma once

#include "base/base.h"

/* Sees to what reads stacks, so that nothing is allocated later: the libraries have it, elsewhere it is libgcc_s.so.1,
 * which is loaded, and that allocates. False: it cannot be. */
bool hk_stack_prepare(void);

/* Puts at most `most` return addresses into `frames`, the innermost first, from the program's call of the allocator
 * on (in a program that the allocator is linked into statically: from the caller on). Returns how many; 0 where
 * the system has nothing that reads stacks. */
unsigned hk_stack_read(void **frames, unsigned most);

/* Writes a line for each frame to stderr, with names where the C library has what finds them. */
void hk_stack_print(void *const *frames, unsigned count);

/* Copies n bytes of our own memory from wherever `from` points; false: they cannot be read. Keeps errno. */
bool hk_os_peek(void *to, uintptr_t from, size_t n);
