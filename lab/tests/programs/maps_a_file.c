/* A malloc that late in its program reads a file that it maps, as a library's own is. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
void *__libc_malloc(size_t n);
void *malloc(size_t n) {
    static int calls;
    if (++calls == 1000) {
        const char *file =
            mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, open(getenv("FILE"), O_RDONLY), 0);
        for (volatile size_t sum = 0, i = 0; i < BYTES; i += 4096)
            sum += (size_t)file[i];
    }
    return __libc_malloc(n);
}
