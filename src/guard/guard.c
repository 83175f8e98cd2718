#include "guard/guard.h"

#include "backend/meta.h"
#include "backend/region.h"
#include "backend/superslab.h"
#include "base/random.h"
#include "base/report.h"
#include "config/config.h"
#include "guard/block.h"
#include "guard/sample.h"
#include "os/os.h"
#include "os/symbols.h"

union hk_guard_page hk_guard_page;
atomic_bool hk_guard_on;

static _Atomic uint64_t streams, shared; /* atomic: any thread */

uint64_t hk_guard_stream(void) {
    uint64_t start = hk_guard->streams ^ hk_add_relaxed(&streams, (uint64_t)0xD1B54A32D192ED03u);
    start ^= start >> 32;
    return start * 0xFF51AFD7ED558CCDu;
}

uint32_t hk_guard_chance(uint32_t end) {
    if (hk_load_relaxed(&shared) == 0)
        hk_store_relaxed(&shared, hk_guard_stream());
    return hk_random_shared(&shared, end);
}

/* The time differs for each fork. The system's random numbers are not used: a sandbox may forbid
 * the call. */
void hk_guard_forked(void) {
    hk_add_relaxed(&streams, hk_os_now_ns() * 0x9E3779B97F4A7C15u);
    hk_store_relaxed(&shared, (uint64_t)0);
    hk_region_forked(hk_guard_stream());
}

static void swap(void **blocks, unsigned i, unsigned j) {
    void *p = blocks[i];
    blocks[i] = blocks[j];
    blocks[j] = p;
}

/* Fisher-Yates within groups of four, one random number for each: blocks that are asked for
 * together are used together and stay in the same few cache lines and pages. */
void hk_guard_shuffle(uint64_t *stream, void **blocks, unsigned n) {
    for (; n >= 4; n -= 4) {
        const unsigned order = hk_random_below(stream, 4 * 3 * 2);
        swap(blocks, n - 1, n - 4 + order % 4);
        swap(blocks, n - 2, n - 4 + order / 4 % 3);
        swap(blocks, n - 3, n - 4 + order / 12);
    }
    for (; n > 1; n--)
        swap(blocks, n - 1, hk_random_below(stream, n));
}

static size_t class_bytes(const void *p) {
    const unsigned cls = hk_map_kind(p);
    return hk_kind_is_class(cls) ? hk_classes[cls].size : HK_NO_SIZE;
}

HK_COLD void hk_guard_fault(hk_fatal_t kind, const void *p, size_t bytes, ptrdiff_t at) {
    hk_fault_say(kind, p, bytes, at, class_bytes(p), "");
    hk_fault_end();
}

/* Whether new, new[], their aligned forms and malloc can be told apart. No longer, and for good,
 * once any loaded object except hakmem and the C++ library exports one of the operators. Its new
 * takes blocks from our malloc, and they may come back by an operator delete of ours, even much
 * later; or it frees what an operator new of ours gave. Takes the lock under which the loader walks
 * its objects. */
static HK_COLD bool tells_kinds(void) {
    static const char operators[][8] = {"_Znwm", "_Znam", "_ZdlPv", "_ZdaPv"};
    static const char forms[][32] = {
        "",  "RKSt9nothrow_t",  "St11align_val_t", "St11align_val_tRKSt9nothrow_t",
        "m", "mSt11align_val_t" /* only delete has these two */};
    enum { OPERATORS = sizeof operators / sizeof *operators, FORMS = sizeof forms / sizeof *forms };
    static atomic_bool mixed; /* atomic: any thread; set once */
    for (unsigned i = 0; i < OPERATORS * FORMS && !hk_load_relaxed(&mixed); i++) {
        hk_line_t name = {0};
        hk_line_put(&name, "%s%s", operators[i / FORMS], forms[i % FORMS]);
        if (hk_symbol_of_others(hk_line_text(&name), hk_is_cxx_library) != NULL)
            hk_store_relaxed(&mixed, true);
    }
    return !hk_load_relaxed(&mixed);
}

static HK_COLD void deny(hk_fatal_t kind, const void *p, size_t bytes, const char *claim, ...) {
    hk_line_t line = {0};
    va_list values;
    va_start(values, claim);
    hk_line_put_list(&line, claim, &values);
    va_end(values);
    hk_fault_say(kind, p, bytes, HK_NOWHERE, class_bytes(p), hk_line_text(&line));
}

bool hk_guard_denies(const void *p, size_t bytes, hk_by_t was, hk_by_t by, size_t n) {
    static const char *const names[] = {[HK_BY_MALLOC] = "malloc",
                                        [HK_BY_NEW] = "new",
                                        [HK_BY_NEW_ARRAY] = "new[]",
                                        [HK_BY_ALIGNED_NEW] = "aligned new",
                                        [HK_BY_ALIGNED_NEW_ARRAY] = "aligned new[]"};
    if (HK_UNLIKELY(by != was && hk_guard->kinds && tells_kinds()))
        deny(HK_MISMATCH, p, bytes, ", from %s, freed as %s's", names[was], names[by]);
    else if (HK_UNLIKELY(n != bytes && n != HK_ANY_SIZE && hk_guard->sizes))
        deny(HK_WRONG_SIZE, p, bytes, ", freed as %lu", (uint64_t)n);
    else
        return false;
    return true;
}

void hk_guard_check_claims(const void *p, size_t bytes, hk_by_t was, hk_by_t by, size_t n) {
    if (HK_UNLIKELY(hk_guard_denies(p, bytes, was, by, n)))
        hk_fault_end();
}

void hk_guard_check_alignment(const void *p, size_t align) {
    if (!hk_guard->sizes || (hk_is_pow2(align) && hk_is_aligned((uintptr_t)p, align)))
        return;
    deny(HK_MISMATCH, p, HK_NO_SIZE, ", freed as aligned to %lu", (uint64_t)align);
    hk_fault_end();
}

bool hk_guard_protect(hk_access_t access) {
    return hk_os_page_size() != sizeof hk_guard_page ||
           hk_os_protect(&hk_guard_page, sizeof hk_guard_page, access);
}

void hk_guard_prepare(bool starts) {
    enum { SHARES = 64 }; /* more than there are classes */
    static atomic_flag done = ATOMIC_FLAG_INIT;
    const bool first = !atomic_flag_test_and_set(&done);
    if (!first && (!starts || !hk_guard_protect(HK_READ_WRITE)))
        return;
    *hk_guard = (hk_guard_t){
        .secret = first ? hk_os_random() : hk_guard->secret,
        .mixes = first ? hk_os_random() | 1 : hk_guard->mixes,
        .stirs = first ? hk_os_random() | 1 : hk_guard->stirs,
        .seals = first ? hk_os_random() : hk_guard->seals,
        .streams = first ? hk_os_random() : hk_guard->streams,
        .zeroed = hk_align_up(hk_option(guard_zero), 16),
        .quarantine_bytes = hk_option(guard_quarantine_kb) * HK_KIB / SHARES,
        .tail = hk_option(guard_tail) != 0,
        /* a slice must hold some pages before the block and the block's own */
        .fences = hk_option(guard_fences) != 0 && hk_os_page_size() * 16 <= HK_SLICE,
        .sizes = hk_option(guard_match) != HK_MATCH_OFF,
        /* without the guard, the boundary does not say how a sample is freed (front/boundary.c) */
        .kinds = hk_option(guard) != 0 && hk_option(guard_match) == HK_MATCH_KINDS,
    };
    hk_guard_protect(HK_READ);
}

bool hk_guard_start(void) {
    hk_guard_prepare(true);
    if (hk_guard->fences)
        hk_sample_handle();
    hk_meta_fence();
    hk_region_scatter(hk_os_random());
    if (!hk_pool_add_shadows(HK_BLOCK_EARLY, hk_guard->zeroed >= HK_MID_MAX))
        return false;
    hk_os_settle_clock();
    hk_config_settle();
    hk_classes_settle();
    hk_store_release(&hk_guard_on, true);
    return true;
}
