// realloc of NULL is malloc, and realloc to no bytes frees as glibc's does and leaks nothing.
#include "promise.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    void *volatile none = NULL;
    volatile size_t zero = 0;
    void *block = realloc(none, 1000);
    PROMISE(block != NULL && malloc_usable_size(block) >= 1000, "realloc(NULL, 1000) gave %p",
            block);
    free(block);
    size_t before = resident();
    for (long i = 0; i < 20000; i++) { // 200 MB if nothing were freed
        block = realloc(none, 10000);
        PROMISE(block != NULL, "realloc(NULL, 10000): %s", strerror(errno));
        memset(block, 1, 10000);
        void *rest = realloc(block, zero);
        PROMISE(rest == NULL, "realloc(block, 0) gave %p: glibc's frees and returns NULL", rest);
    }
    size_t grown = resident() - before;
    PROMISE(resident() < before + 20 * MIB, "realloc(block, 0) leaks: %zu MiB more", grown / MIB);
    void *empty = realloc(none, zero); // malloc(0): not NULL in glibc
    PROMISE(empty != NULL, "realloc(NULL, 0) gave NULL: glibc's is malloc(0), a block");
    free(empty);
    return 0;
}
