// Aligned requests are met for every power of two up to 1 MiB, and the blocks can be freed.
#include "promise.h"

static void check(void *block, size_t align, size_t n, const char *name) {
    PROMISE(block != NULL, "%s(%zu, %zu): %s", name, align, n, strerror(errno));
    PROMISE((uintptr_t)block % align == 0, "%s(%zu, %zu) gave %p", name, align, n, block);
    size_t usable = malloc_usable_size(block);
    PROMISE(usable >= n, "%s(%zu, %zu) has only %zu usable bytes", name, align, n, usable);
    memset(block, 0x5A, usable);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    uint64_t seed = 4711;
    for (int round = 0; round < scaled(40, 4); round++)
        for (size_t align = sizeof(void *); align <= MIB; align *= 2)
            for (size_t n = 1; n <= 4 * MIB; n = n * 3 + next(&seed) % n) {
                void *blocks[3] = {0};
                PROMISE(posix_memalign(&blocks[0], align, n) == 0, "posix_memalign(%zu, %zu)",
                        align, n);
                blocks[1] = aligned_alloc(align, (n + align - 1) / align * align);
                blocks[2] = memalign(align, n);
                check(blocks[0], align, n, "posix_memalign");
                check(blocks[1], align, n, "aligned_alloc");
                check(blocks[2], align, n, "memalign");
                void *moved = realloc(blocks[2], 2 * n);
                PROMISE(moved != NULL && *(unsigned char *)moved == 0x5A,
                        "realloc of an aligned block lost its content");
                free(blocks[0]), free(blocks[1]), free(moved);
            }
    void *pages = valloc(100);
    check(pages, (size_t)sysconf(_SC_PAGESIZE), 100, "valloc");
    free(pages);
    return 0;
}
