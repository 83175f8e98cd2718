// mlockall(MCL_CURRENT | MCL_FUTURE) makes every mapping resident: address space that is only
// reserved must not turn into gigabytes of locked memory.
#include "pattern.h"
#include "process.h"

#include <sys/mman.h>
#include <sys/resource.h>

enum { BLOCKS = 2000, TOTAL_LIMIT_MIB = 256 };

// Memory that is locked once it is touched, and never is.
static int may_lock(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int may = p != MAP_FAILED && mlock2(p, bytes, MLOCK_ONFAULT) == 0;
    if (p != MAP_FAILED)
        munmap(p, bytes);
    return may;
}

int main(void) {
    world_begin(60);
    size_t before = process_rss();
    struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    (void)setrlimit(RLIMIT_MEMLOCK, &unlimited); // needless for who may lock without limit
    if (!may_lock(TOTAL_LIMIT_MIB * MIB))
        world_skip("RLIMIT_MEMLOCK is too low here and may not be raised");
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        world_skip("mlockall is not permitted here");
    size_t locked = process_rss();
    CHECK(locked < before + TOTAL_LIMIT_MIB * MIB, "mlockall: RSS %zu MiB -> %zu MiB", before / MIB,
          locked / MIB);
    static block_t *blocks[BLOCKS];
    uint64_t rng = 1;
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < BLOCKS; i++)
            blocks[i] = block_new(rng_size(&rng, i % 100 == 0 ? 2 << 20 : 5000), i);
        for (size_t i = 0; i < BLOCKS; i++)
            block_delete(blocks[i]);
    }
    size_t after = process_rss();
    CHECK(after < before + TOTAL_LIMIT_MIB * MIB, "locked heap: RSS %zu MiB -> %zu MiB",
          before / MIB, after / MIB);
    return 0;
}
