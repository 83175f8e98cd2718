// expect: survives
// secure: invalid pointer: PTR, in thread [0-9]+
// sampled: survives
// The size of what is no block, in a mapping of the program's own.
#include "corrupt.h"

#include <malloc.h>
#include <sys/mman.h>

int main(void) {
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile size_t n = malloc_usable_size(announce(page + 64));
    (void)n;
}
