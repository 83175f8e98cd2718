// mallinfo2 tells of the live heap: it grows by what was allocated, and shrinks when that is freed.
#include "promise.h"

static size_t in_use(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd; // hblkhd: blocks with mappings of their own
}

int main(int argc, char **argv) {
    begin(argc, argv);
    enum { BLOCKS = 40000 };
    static void *blocks[BLOCKS];
    size_t total = 0, before = in_use();
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t n = i % 100 == 0 ? 100000 : 100 + i % 1000;
        blocks[i] = malloc(n);
        total += n;
    }
    size_t during = in_use() - before;
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    size_t after = in_use() - before;
    PROMISE(during >= total / 10 * 9 && during <= total / 2 * 3,
            "%zu KiB were allocated, mallinfo2 says %zu KiB", total / KIB, during / KIB);
    PROMISE(after <= total / 5 || after > SIZE_MAX / 2, "all was freed, mallinfo2 says %zu KiB",
            after / KIB);
    return 0;
}
