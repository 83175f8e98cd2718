// A block that the C library itself allocated can be given to free and realloc.
#include "promise.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    void *found = dlsym(RTLD_DEFAULT, "__libc_malloc");
    if (found == NULL)
        CANNOT_CHECK("this C library has no __libc_malloc");
    void *(*libc_malloc)(size_t);
    memcpy(&libc_malloc, &found, sizeof found);
    const size_t sizes[] = {1, 24, 500, 5000, 100000, 3 * MIB};
    for (int round = 0; round < 200; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            size_t n = sizes[i];
            free(libc_malloc(n));
            void *block = libc_malloc(n);
            fill(block, n, i);
            PROMISE(malloc_usable_size(block) >= n, "malloc_usable_size of a foreign block is %zu",
                    malloc_usable_size(block));
            block = realloc(block, 2 * n);
            PROMISE(block != NULL && intact(block, n < 64 ? n : 64, i),
                    "realloc of a foreign block lost its content");
            free(block);
        }
    return 0;
}
