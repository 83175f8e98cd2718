// expect: SIGSEGV
// secure: invalid free: PTR, in thread [0-9]+
// sampled: SIGSEGV
// An address that nobody may read.
#include <sys/mman.h>

#include "corrupt.h"

int main(void) {
    void *p = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    free(announce(at_offset(p, 16)));
}
