// expect: survives
// secure: invalid free: PTR, .*
// sampled: survives
// Memory of mmap's, made to look as if the C library had mapped it beside a live block, is freed.
#include <sys/mman.h>

#include "corrupt.h"

int main(void) {
    char *live = malloc(300000),
         *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const size_t page = ((size_t)live + 4096) & ~(size_t)4095;
    size_t *head = (size_t *)(void *)p;
    head[0] = (size_t)p - page;
    head[1] = (65536 - head[0]) | 2;
    free(announce(p + 16));
}
