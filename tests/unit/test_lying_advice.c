/* A system that says it has dropped what pages hold, and has not, as qemu-user before 7.1: memory that was given back
 * must not pass for zero. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "backend/advise.h"
#include "check.h"
#include "config/config.h"
#include "hakmem/hakmem.h"

__attribute__((visibility("default"))) int madvise(void *p, size_t bytes, int advice) {
    return advice == MADV_DONTNEED ? 0 : (int)syscall(SYS_madvise, p, bytes, advice);
}

static void is_zero(const char *p, size_t bytes) {
    CHECK(p != NULL);
    for (size_t i = 0; i < bytes; i++)
        CHECK(p[i] == 0);
}

/* A block of which little was touched is given back rather than cleared. */
static void hollow(void) {
    char *p = hak_malloc(4 * HK_MIB);
    CHECK(p != NULL);
    p[0] = 1;
    hak_free(p);
    char *again = hak_calloc(1, 4 * HK_MIB);
    is_zero(again, 4 * HK_MIB);
    hak_free(again);
}

/* Free slices, and pages of slabs, that a purge has given back. */
static void purged(size_t bytes) {
    enum { BLOCKS = 400 };
    static char *blocks[BLOCKS];
    const unsigned n = bytes > HK_SLICE ? 24 : BLOCKS;
    for (unsigned i = 0; i < n; i++) {
        CHECK((blocks[i] = hak_malloc(bytes)) != NULL);
        memset(blocks[i], 0x77, bytes);
    }
    for (unsigned i = 0; i < n; i++)
        if (i % 8 != 0)
            hak_free(blocks[i]);
    hak_trim();
    for (unsigned i = 0; i < n; i++) {
        if (i % 8 != 0)
            is_zero(blocks[i] = hak_calloc(1, bytes), bytes);
        hak_free(blocks[i]);
    }
}

int main(void) {
    hk_store_relaxed(&hk_config.region_cache_mb, (uint64_t)64);
    hak_free(hak_malloc(1));
    hollow();
    purged(700 * 1000);
    purged(6000);
    purged(100000);
    return 0;
}
