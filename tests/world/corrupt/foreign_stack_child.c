// expect: free\(\): invalid pointer
// secure: invalid free: PTR, in thread [0-9]+
// sampled: free\(\): invalid pointer
// An address on the stack, in a child that was forked by a thread: its stack is that thread's.
#include "child.h"

static void misuse(void *p) { free(p); }

static void *fork_here(void *unused) {
    volatile char block[64] = {0};
    end_as_child(misuse, announce(at_offset((void *)(uintptr_t)block, 16)));
    return unused;
}

int main(void) { in_thread(fork_here, NULL); }
