#include "guard/guard.h"

#include "backend/meta.h"
#include "backend/region.h"
#include "backend/superslab.h"
#include "base/random.h"
#include "base/report.h"
#include "config/config.h"
#include "guard/block.h"
#include "os/os.h"

union hk_guard_page hk_guard_page;
atomic_bool hk_guard_on;

uint64_t hk_guard_stream(void) {
    static _Atomic uint64_t streams;
    uint64_t start = hk_guard->secret ^ hk_add_relaxed(&streams, (uint64_t)0xD1B54A32D192ED03u);
    start ^= start >> 32;
    return start * 0xFF51AFD7ED558CCDu;
}

/* By Fisher and Yates, so many at a time: what is asked for together is used together, and stays in
 * the same few cache lines and pages. */
void hk_guard_shuffle(uint64_t *stream, void **blocks, unsigned n) {
    enum { AT_A_TIME = 4 };
    for (; n > AT_A_TIME; n -= AT_A_TIME)
        hk_guard_shuffle(stream, blocks + n - AT_A_TIME, AT_A_TIME);
    for (unsigned i = n; i > 1; i--) {
        const unsigned other = hk_random_below(stream, i);
        void *p = blocks[i - 1];
        blocks[i - 1] = blocks[other];
        blocks[other] = p;
    }
}

void hk_guard_check_claims(const void *p, size_t bytes, hk_by_t was, hk_by_t by, size_t n) {
    if (HK_UNLIKELY(by != was && hk_guard->kinds))
        hk_fault(HK_MISMATCH, p, bytes, HK_NOWHERE);
    if (HK_UNLIKELY(n != bytes && n != HK_ANY_SIZE && hk_guard->sizes))
        hk_fault(HK_WRONG_SIZE, p, bytes, HK_NOWHERE);
}

/* Fences need a page for what describes the block, and some before it, in one slice. */
static bool pages_are_small(void) { return hk_os_page_size() * 16 <= HK_SLICE; }

void hk_guard_prepare(void) {
    enum { SHARES = 64 }; /* there are fewer classes */
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&done))
        return;
    *hk_guard = (hk_guard_t){
        .secret = hk_os_random(),
        .zeroed = hk_align_up(hk_option(guard_zero), 16),
        .quarantine_bytes = hk_option(guard_quarantine_kb) * HK_KIB / SHARES,
        .tail = hk_option(guard_tail) != 0,
        .fences = hk_option(guard_fences) != 0 && pages_are_small(),
        .sizes = hk_option(guard_match) != HK_MATCH_OFF,
        .kinds = hk_option(guard_match) == HK_MATCH_KINDS,
    };
    if (hk_os_page_size() == sizeof hk_guard_page)
        hk_os_protect(&hk_guard_page, sizeof hk_guard_page, HK_READ);
}

bool hk_guard_start(void) {
    hk_guard_prepare();
    hk_meta_fence();
    hk_region_scatter(hk_os_random());
    hk_pool_dig_holes(hk_os_random());
    if (!hk_pool_add_shadows(HK_BLOCK_EARLY))
        return false;
    hk_store_relaxed(&hk_guard_on, true);
    return true;
}
