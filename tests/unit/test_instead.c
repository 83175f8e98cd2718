/* Free memory is used before new memory: slabs and single slices must come from slices that have memory;
 * and when a large block makes the process larger than ever, as much free memory must go back. */
#include "base/counters.h"
#include "config/config.h"
#include "hakmem/hakmem.h"
#include "policy/look.h"
#include "policy/purger.h"
#include "superslabs.h"

static void decommit(uint64_t how) {
    hk_store_relaxed(&hk_config.lean_decommit, how);
    hk_policy_apply();
}

/* The superslab that fits best has fresh slices, another dirty ones: slabs and single slices must come
 * from the latter. Longer runs go by the best fit. */
static void takes_what_is_there(void) {
    hk_slab_t *fresh = own_superslab(true), *used = own_superslab(false);
    hk_slab_t *most = take_in(fresh, HK_SLICES - 3, 0);
    clear_the_way();
    for (unsigned cls = 1; hk_classes[cls].slices == 1; cls++) {
        hk_slab_t *slab = hk_pool_take(1, cls, 1);
        CHECK(!slab->zeroed && hk_load_relaxed(&slab->clean) == 0);
        hk_pool_give(slab);
    }
    for (unsigned slices = 1; slices <= 2; slices++) {
        hk_slab_t *run = hk_pool_take(slices, 0, 1);
        CHECK(run->zeroed == (slices != 1));
        hk_pool_give(run);
    }
    hk_pool_give(most);
    hk_pool_give(fresh);
    hk_pool_give(used);
}

/* Memory in use is estimated from the counters of bytes touched and purged. Purging superslabs that were
 * only partly touched makes them drift; the look at the end must correct that, or the test below fails:
 * its block would not seem to make the process larger than ever. */
static void more_goes_than_came(void) {
    enum { ROUNDS = 30, RUNS = 30, BYTES = 5 << 18 };
    static void *runs[RUNS];
    const uint64_t came = hk_counted(touched), gone = hk_counted(purge_bytes);
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (unsigned n = 0; n < RUNS; n++)
            CHECK((runs[n] = hak_malloc(BYTES)) != NULL);
        for (unsigned n = 0; n < RUNS; n++)
            hak_free(runs[n]);
        purge_all();
    }
    CHECK(hk_counted(purge_bytes) - gone > hk_counted(touched) - came + 128 * HK_MIB);
    hk_lock(&hk_look_lock);
    hk_look_begin(false, true);
    while (hk_look_step(HK_DECOMMIT_DONTNEED))
        continue;
    hk_unlock(&hk_look_lock);
}

/* A superslab of which half the slices are free and dirty; returns the run that keeps it. */
static hk_slab_t *dirty_slices(void) {
    hk_slab_t *whole = own_superslab(true), *run = take_in(whole, HK_SLICES / 2, 0);
    clear_the_way();
    memset(run->base, 0x5a, run->slices * HK_SLICE);
    hk_pool_give(run);
    return whole;
}

/* A block that makes the process larger than ever must send as much free memory back; one that does not,
 * or any without purging, must not. */
static void a_large_block_takes_their_place(void) {
    const size_t dirty = HK_SLICES / 2 * HK_SLICE;
    hk_slab_t *whole = dirty_slices();
    uint64_t before = hk_counted(purge_bytes);
    void *much = hak_malloc(64 * HK_MIB); /* larger than ever, but purging is off */
    CHECK(much != NULL && hk_counted(purge_bytes) == before);
    decommit(HK_DECOMMIT_DONTNEED);
    void *more = hak_malloc(64 * HK_MIB);
    CHECK(more != NULL && hk_counted(purge_bytes) >= before + dirty);
    hak_free(more);
    purge_all(); /* a cached range would not count as new memory */
    hk_slab_t *again = take_in(whole, HK_SLICES / 2, 0);
    CHECK(again->zeroed && reads_as(again->base, dirty, 0));
    memset(again->base, 0x5a, dirty);
    hk_pool_give(again);
    clear_the_way();
    before = hk_counted(purge_bytes);
    more = hak_malloc(16 * HK_MIB); /* not larger than before */
    CHECK(more != NULL && hk_counted(purge_bytes) == before);
    hak_free(more);
    hak_free(much);
    hk_pool_give(whole);
}

int main(void) {
    hak_free(hak_malloc(1));
    hk_store_relaxed(&hk_config.region_cache_mb, (uint64_t)64);
    decommit(HK_DECOMMIT_OFF);
    takes_what_is_there();
    more_goes_than_came();
    a_large_block_takes_their_place();
    return 0;
}
