// malloc serves every size up to 64 MiB, aligned to 16, writable to the end of its usable size.
#include "promise.h"

static void one(size_t n) {
    unsigned char *block = malloc(n);
    PROMISE(block != NULL, "malloc(%zu): %s", n, strerror(errno));
    // A block of less than 16 bytes holds no object that needs more alignment than its size.
    size_t align = n >= 16 ? 16 : 8;
    PROMISE((uintptr_t)block % align == 0, "malloc(%zu) is not aligned to %zu", n, align);
    size_t usable = malloc_usable_size(block);
    PROMISE(usable >= n, "malloc(%zu) has only %zu usable bytes", n, usable);
    void *neighbour = malloc(n);
    memset(block, 0xA5, usable);
    free(neighbour); // what was written past the end would show here
    PROMISE(usable == 0 || (block[0] == 0xA5 && block[usable - 1] == 0xA5),
            "the block of %zu bytes does not hold what was written", n);
    free(block);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (size_t n = 0; n <= 64 * KIB; n += (size_t)scaled(1, 7))
        one(n);
    for (size_t n = 64 * KIB; n <= 64 * MIB; n += n / (size_t)scaled(64, 4)) {
        one(n - 1);
        one(n);
        one(n + 1);
    }
    return 0;
}
