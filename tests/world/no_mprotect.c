// In a sandbox that has no mprotect the heap grows as it did: the flat page map is done without once the system lets
// no more of it be written to.
#include "pattern.h"
#include "process.h"
#include "sandbox.h"

// Of addresses that are more than those that any part of the map is about, but of little memory.
enum { LARGE = 600, SMALL = 20000 };

static void grow_and_shrink(void) {
    static char *large[LARGE];
    static block_t *small[SMALL];
    for (size_t i = 0; i < LARGE; i++) {
        const size_t n = i % 2 == 0 ? MIB : 3 * MIB;
        CHECK((large[i] = malloc(n)) != NULL, "malloc(%zu), the %zuth: %s", n, i, strerror(errno));
        large[i][0] = large[i][n - 1] = (char)i;
    }
    for (size_t i = 0; i < SMALL; i++)
        small[i] = block_new(24 + i % 3000, i);
    for (size_t i = 0; i < SMALL; i++)
        block_delete(small[i]);
    for (size_t i = 0; i < LARGE; i++) {
        CHECK(large[i][0] == (char)i, "block %zu has changed", i);
        free(large[i]);
    }
}

int main(void) {
    world_begin(60);
    block_t *before = block_new(1000, 1);
    sandbox_without(SYS_mprotect);
    for (int i = 0; i < 3; i++)
        grow_and_shrink();
    block_delete(before);
    return 0;
}
