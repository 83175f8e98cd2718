// expect: survives
// secure: invalid free: PTR, in thread [0-9]+
// sampled: survives
// In a mapping of the program's own what could be a size lies before the address, but no other block of the C library's behind.
#include "corrupt.h"

#include <sys/mman.h>

int main(void) {
    size_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[7] = 80;
    free(announce(page + 8));
}
