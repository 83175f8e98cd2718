// expect: survives
// secure: write after free: PTR, a block of 160 bytes, at byte 65, .*
// sampled: SIGSEGV use after free: PTR, a block of 128 bytes, at byte 65, .*
// A thread writes to a block that it has freed, and ends: found then.
#include <unistd.h>

#include "corrupt.h"

static void *misuse(void *p) {
    free(p);
    *(char *)at_offset(p, 65) = 'x';
    return NULL;
}

int main(void) {
    in_thread(misuse, announce(malloc(128)));
    _exit(0); /* which looks at nothing */
}
