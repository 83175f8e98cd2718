/* Purging the pages of slabs: the right pages are claimed, live blocks keep their contents, no block is lost or
 * handed out twice. The model has one flag for each block and each page, and computes everything the slow way. */
#include "backend/slab.h"

#include <sys/mman.h>

#include "config/config.h"
#include "hakmem/hakmem.h"
#include "policy/purger.h"
#include "superslabs.h"

enum { STEPS = 160, MOST_PAGES = 64, SEEDS = 2 };

static size_t page;

static bool is_resident(const char *p) {
    unsigned char resident;
    CHECK(mincore((void *)(uintptr_t)p, page, &resident) == 0);
    return resident & 1;
}

/* ---- the model of one slab ---- */

typedef enum { IN_USE, FREE, CLAIMED } state_t;

static struct {
    hk_slab_t *slab;
    unsigned size, blocks, pages;
    uint8_t block[HK_SLAB_MAX_BLOCKS]; /* a state_t */
    uint8_t seed[HK_SLAB_MAX_BLOCKS];  /* of the contents of a block in use */
    bool clean[MOST_PAGES], lazy[MOST_PAGES], seen[MOST_PAGES], purged[MOST_PAGES];
    uint64_t retaken; /* bytes */
} m;

static bool overlap(unsigned block, unsigned n) {
    size_t from = (size_t)block * m.size, to = from + m.size;
    return from < (n + 1) * page && to > n * page;
}

/* How many blocks in the given state overlap the page; negative: in any state. */
static unsigned overlapping(unsigned n, int state) {
    unsigned count = 0;
    for (unsigned b = 0; b < m.blocks; b++)
        count += overlap(b, n) && (state < 0 || m.block[b] == state);
    return count;
}

static bool page_is_free(unsigned n) {
    unsigned all = overlapping(n, -1);
    return all != 0 && overlapping(n, FREE) == all;
}

static uint64_t mask_of(const bool *flags) {
    uint64_t mask = 0;
    for (unsigned n = 0; n < m.pages; n++)
        mask |= (uint64_t)flags[n] << n;
    return mask;
}

static unsigned count_of(state_t state) {
    unsigned count = 0;
    for (unsigned b = 0; b < m.blocks; b++)
        count += m.block[b] == state;
    return count;
}

static char *address(unsigned block) { return m.slab->base + (size_t)block * m.size; }

/* First and last byte and each page's first: enough to see a purged page, and quick. */
static void write_block(unsigned b) {
    char *p = address(b);
    p[0] = p[m.size - 1] = (char)m.seed[b];
    for (unsigned n = 0; n < m.pages; n++)
        if (overlap(b, n) && n * page > (size_t)b * m.size)
            m.slab->base[n * page] = (char)m.seed[b];
}

static void check_contents(void) {
    for (unsigned b = 0; b < m.blocks; b++) {
        if (m.block[b] != IN_USE)
            continue;
        CHECK_EQ((uint8_t)address(b)[0], m.seed[b]);
        CHECK_EQ((uint8_t)address(b)[m.size - 1], m.seed[b]);
        for (unsigned n = 0; n < m.pages; n++)
            if (overlap(b, n) && n * page > (size_t)b * m.size)
                CHECK_EQ((uint8_t)m.slab->base[n * page], m.seed[b]);
    }
}

static void check_against_model(void) {
    const hk_slab_t *slab = m.slab;
    size_t dirty = 0;
    for (unsigned b = 0; b < m.blocks; b++)
        CHECK_EQ(slab->bits[b / 64] >> b % 64 & 1, m.block[b] == FREE);
    CHECK_EQ(hk_load_relaxed(&slab->free), count_of(FREE));
    CHECK_EQ(hk_load_relaxed(&slab->clean), mask_of(m.clean));
    CHECK_EQ(hk_load_relaxed(&slab->lazy), mask_of(m.lazy));
    CHECK_EQ(slab->seen, mask_of(m.seen));
    CHECK_EQ(slab->purged, mask_of(m.purged));
    CHECK_EQ(hk_load_relaxed(&hk_pool_retaken), m.retaken);
    CHECK_EQ(slab->marked, (mask_of(m.clean) | mask_of(m.seen)) != 0);
    for (unsigned n = 0; n < m.pages; n++)
        dirty += page_is_free(n) && !m.clean[n] ? page : 0;
    CHECK(hk_slab_dirty_bytes(slab) >= dirty); /* an upper bound */
    hk_walk(hk_slab_is_valid(slab));
}

/* Starts the model of a slab just carved: all its pages are clean, or none is. */
static void model_of(hk_slab_t *slab, bool clean) {
    memset(&m, 0, sizeof m);
    m.slab = slab;
    m.retaken = hk_load_relaxed(&hk_pool_retaken);
    m.size = hk_classes[slab->cls].size;
    m.blocks = hk_classes[slab->cls].blocks;
    m.pages = (unsigned)(slab->slices * HK_SLICE / page);
    memset(m.block, FREE, sizeof m.block);
    for (unsigned n = 0; n < m.pages; n++)
        m.clean[n] = clean && overlapping(n, -1) != 0;
    CHECK((slab->purged & ~mask_of(m.clean)) == 0);
    for (unsigned n = 0; n < m.pages; n++)
        m.purged[n] = slab->purged >> n & 1;
}

static bool is_on_clean_page(unsigned b) {
    for (unsigned n = 0; n < m.pages; n++)
        if (overlap(b, n) && m.clean[n])
            return true;
    return false;
}

/* Takes n blocks: blocks on no clean page first, then the others, each in order of addresses. The pages of these
 * blocks, and no other pages, cease to be clean. */
static void step_take(unsigned n, uint64_t *rng) {
    static void *out[HK_SLAB_MAX_BLOCKS];
    static unsigned expected[HK_SLAB_MAX_BLOCKS];
    unsigned count = 0;
    n = (unsigned)hk_min(n, count_of(FREE));
    for (int kind = 0; kind < 2; kind++)
        for (unsigned b = 0; b < m.blocks && count < n; b++)
            if (m.block[b] == FREE && is_on_clean_page(b) == kind)
                expected[count++] = b;
    hk_slab_take(m.slab, out + n, n);
    for (unsigned i = 0; i < n; i++) {
        unsigned b = expected[i];
        CHECK_EQ((uintptr_t)out[n - 1 - i], (uintptr_t)address(b));
        m.block[b] = IN_USE;
        m.seed[b] = (uint8_t)(1 + chance_below(rng, 255));
    }
    for (unsigned i = 0; i < n; i++) {
        for (unsigned p = 0; p < m.pages; p++)
            if (overlap(expected[i], p)) {
                m.retaken += m.purged[p] ? page : 0;
                m.clean[p] = m.lazy[p] = m.seen[p] = m.purged[p] = false;
            }
        write_block(expected[i]);
    }
}

/* Frees a block into the slab as a flush does. */
static void free_block(unsigned b) {
    if (m.block[b] != IN_USE)
        return;
    m.block[b] = FREE;
    m.slab->bits[b / 64] |= (uint64_t)1 << b % 64;
    m.slab->summary |= (uint64_t)1 << b / 64;
    hk_store_relaxed(&m.slab->free, (uint16_t)(hk_load_relaxed(&m.slab->free) + 1));
}

/* Each block in use with a chance of `percent`; or a run of neighbours. */
static void step_free(unsigned percent, uint64_t *rng) {
    if (chance_below(rng, 3) == 0) {
        unsigned first = chance_below(rng, m.blocks);
        unsigned n = 1 + (unsigned)((size_t)m.blocks * percent / 100);
        for (unsigned b = first; b < m.blocks && b < first + n; b++)
            free_block(b);
        return;
    }
    for (unsigned b = 0; b < m.blocks; b++)
        if (chance_below(rng, 100) < percent)
            free_block(b);
}

static void check_ranges(uint64_t pages, const hk_os_range_t *ranges, unsigned count) {
    uint64_t covered = 0;
    CHECK(count <= 32);
    for (unsigned i = 0; i < count; i++)
        for (size_t at = 0; at < ranges[i].bytes; at += page) {
            size_t n = (size_t)((char *)ranges[i].start + at - m.slab->base) / page;
            CHECK(n < m.pages && (covered >> n & 1) == 0);
            covered |= (uint64_t)1 << n;
        }
    CHECK_EQ(covered, pages);
}

/* A claim takes exactly the pages that are not clean and all of whose blocks are free; an aged claim, only those that
 * were so at the last claim. Returns the claimed pages. */
static uint64_t step_claim(hk_claim_t which) {
    bool dirty[MOST_PAGES] = {false}, due[MOST_PAGES] = {false};
    const bool aged = which == HK_CLAIM_AGED;
    for (unsigned n = 0; n < m.pages; n++) {
        m.clean[n] &= which != HK_CLAIM_LAZY_TOO || !m.lazy[n];
        m.purged[n] &= which != HK_CLAIM_LAZY_TOO || !m.lazy[n];
        m.lazy[n] &= which != HK_CLAIM_LAZY_TOO;
        dirty[n] = page_is_free(n) && !m.clean[n];
        due[n] = dirty[n] && (!aged || m.seen[n]);
    }
    for (unsigned n = 0; n < m.pages; n++)
        m.seen[n] = dirty[n] && !due[n];
    for (unsigned n = 0; n < m.pages; n++)
        for (unsigned b = 0; due[n] && b < m.blocks; b++)
            if (overlap(b, n))
                m.block[b] = CLAIMED;
    uint64_t pages = hk_slab_claim(m.slab, which);
    CHECK_EQ(pages, mask_of(due));
    check_against_model();
    return pages;
}

static void step_unclaim(uint64_t pages, uint64_t purged, bool lazily) {
    unsigned claimed = count_of(CLAIMED);
    CHECK_EQ(hk_slab_unclaim(m.slab, pages, purged, lazily), claimed);
    hk_store_relaxed(&m.slab->free, (uint16_t)(hk_load_relaxed(&m.slab->free) + claimed));
    for (unsigned b = 0; b < m.blocks; b++)
        m.block[b] = m.block[b] == CLAIMED ? FREE : m.block[b];
    for (unsigned n = 0; n < m.pages; n++) {
        m.clean[n] |= purged >> n & 1;
        m.purged[n] |= purged >> n & 1;
        m.lazy[n] |= lazily && (purged >> n & 1);
    }
    check_against_model();
}

/* A purge in which some ranges are refused, and during which blocks of the slab are taken and freed. */
static void step_purge(uint64_t *rng) {
    hk_os_range_t ranges[MOST_PAGES / 2];
    const hk_claim_t which = (hk_claim_t)chance_below(rng, 3);
    const hk_advice_t how = chance_below(rng, 3) == 0 ? HK_RESET : HK_PURGE;
    uint64_t pages = step_claim(which), purged = 0;
    unsigned count = hk_mask_ranges(m.slab->base, pages, hk_os_page_size(), ranges);
    check_ranges(pages, ranges, count);
    if (which != HK_CLAIM_AGED)
        CHECK_EQ(hk_slab_claim(m.slab, HK_CLAIM_DIRTY), 0); /* no page is claimed twice */
    if (chance_below(rng, 2) == 0) {
        step_take(chance_below(rng, m.blocks), rng);
        step_free(30, rng);
    }
    for (unsigned i = 0; i < count; i++)
        if (chance_below(rng, 4) != 0) {
            advise_each(&ranges[i], 1, how);
            purged |=
                hk_bits((unsigned)((size_t)((const char *)ranges[i].start - m.slab->base) / page),
                        (unsigned)(ranges[i].bytes / page));
        }
    check_contents();
    for (unsigned n = 0; how == HK_PURGE && n < m.pages; n++)
        if (purged >> n & 1)
            CHECK(!is_resident(m.slab->base + n * page));
    step_unclaim(pages, purged, how == HK_RESET);
}

/* A page marked as clean has no memory; it gets memory only when a block on it is written. */
static void check_residence(void) {
    for (unsigned n = 0; n < m.pages; n++)
        if (m.clean[n] && !m.lazy[n])
            CHECK(!is_resident(m.slab->base + n * page));
}

static void model_is_followed(unsigned cls, uint64_t seed) {
    static const unsigned chances[] = {3, 30, 50, 80, 95, 100};
    uint64_t rng = seed * 0x9e3779b97f4a7c15u + cls;
    const bool fresh = seed % 2 == 0;
    hk_slab_t *whole = own_superslab(fresh);
    hk_slab_t *slab = take_in(whole, hk_classes[cls].slices, cls);
    model_of(slab, fresh);
    check_against_model();
    check_residence();
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned dice = chance_below(&rng, 100);
        if (dice < 40)
            step_take(dice < 10 ? m.blocks : 1 + chance_below(&rng, m.blocks), &rng);
        else if (dice < 70)
            step_free(chances[chance_below(&rng, 6)], &rng);
        else
            step_purge(&rng);
        check_against_model();
        check_residence();
        check_contents();
    }
    step_free(100, &rng);
    uint64_t left = step_claim(false);
    step_unclaim(left, 0, false);
    step_unclaim(step_claim(false), 0, false); /* refused: no block lost, all still dirty */
    for (unsigned b = 0; b < m.blocks; b++)
        free_block(b); /* the pool accepts only slabs all of whose blocks are free */
    hk_pool_give(slab);
    hk_pool_give(whole);
    clear_the_way();
}

/* A new slab of several slices takes over its slices' marks: clean, lazy, purged, and pages gone. */
static void slices_are_marked(void) {
    const unsigned cls = HK_CLASS_FIXED - 1, slices = hk_classes[cls].slices;
    hk_slab_t *whole = own_superslab(false), *slab = take_in(whole, slices, cls);
    model_of(slab, false);
    const unsigned per_slice = (unsigned)(HK_SLICE / page);
    uint16_t gone[HK_SLICES] = {0};
    uint64_t rng = 1;
    for (unsigned bits = 0; bits < 1u << 2 * slices; bits++) {
        uint32_t clean = bits & ((1u << slices) - 1), lazy = bits >> slices & ~clean;
        for (unsigned i = 0; i < slices; i++)
            gone[i] = (clean | lazy) >> i & 1 ? 0 : (uint16_t)chance_below(&rng, 1u << per_slice);
        const uint32_t purged = bits % 2 != 0 ? clean | lazy : 0u;
        hk_slab_mark_slices(slab, clean | 1u << slices, lazy | 1u << (slices + 1), purged, gone);
        for (unsigned n = 0; n < m.pages; n++) {
            unsigned slice = n / per_slice;
            const bool used = overlapping(n, -1) != 0;
            m.purged[n] = (purged >> slice | (uint32_t)gone[slice] >> n % per_slice) & 1 && used;
            m.clean[n] = ((clean | lazy) >> slice & 1 && used) || m.purged[n];
            m.lazy[n] = lazy >> slice & 1 && used;
        }
        check_against_model();
    }
    hk_pool_give(slab);
    hk_pool_give(whole);
    clear_the_way();
}

/* A slab of 1 KiB blocks, all free, all of whose pages were given back; `again`: its first page has memory again. */
static hk_slab_t *purged_slab(const hk_slab_t *whole, bool again) {
    hk_os_range_t ranges[MOST_PAGES / 2];
    uint64_t rng = 1;
    hk_slab_t *slab = take_in(whole, 1, hk_class_of(1024));
    model_of(slab, false);
    for (unsigned n = 0; n < m.pages; n++)
        m.clean[n] = m.purged[n] = hk_load_relaxed(&slab->clean) >> n & 1;
    step_take(m.blocks, &rng);
    step_free(100, &rng);
    for (unsigned b = 0; b < m.blocks; b++)
        free_block(b);
    const uint64_t pages = step_claim(false);
    const unsigned count = hk_mask_ranges(slab->base, pages, page, ranges);
    advise_each(ranges, count, HK_PURGE);
    step_unclaim(pages, pages, false);
    if (again)
        step_take(1, &rng);
    free_block(0);
    return slab;
}

static hk_pool_free_t free_now(void) {
    hk_pool_free_t sum = {0};
    for (hk_superslab_t *at = NULL; hk_pool_add_free(&at, &sum);)
        continue;
    return sum;
}

/* The pool remembers which pages of a slab were given back after the slab is gone: they do not count as free memory,
 * are not given back twice, and count as retaken when they are used next. */
static void what_is_gone_stays_gone(void) {
    hk_os_range_t ranges[HK_SLICES];
    unsigned count;
    bool seen = false;
    hk_slab_t *whole = own_superslab(false);
    const size_t gone = HK_SLICE - page;
    hk_pool_give(take_in(whole, 1, 0)); /* further slabs come from this superslab */
    const hk_pool_free_t before = free_now();
    hk_slab_t *slab = purged_slab(whole, true), *next;
    hk_pool_give(slab);
    CHECK_EQ(free_now().clean, before.clean + gone);
    CHECK_EQ(free_now().slices, before.slices - gone);

    /* the next slab there takes over the marks */
    uint64_t retaken = hk_load_relaxed(&hk_pool_retaken);
    CHECK((next = take_in(whole, 1, hk_class_of(2048))) == slab && !next->zeroed);
    CHECK_EQ(hk_load_relaxed(&next->clean), ((uint64_t)2 << gone / page) - 2);
    CHECK_EQ(hk_load_relaxed(&hk_pool_retaken), retaken);
    hk_pool_give(next);
    CHECK_EQ(free_now().clean, before.clean + gone);

    /* a large run retakes all these pages */
    CHECK((next = take_in(whole, 1, 0)) == slab);
    CHECK_EQ(hk_load_relaxed(&hk_pool_retaken), retaken + gone);
    hk_pool_give(next);
    CHECK_EQ(free_now().clean, before.clean);

    /* a purge counts only the page that has memory */
    hk_pool_give(slab = purged_slab(whole, true));
    const uint32_t own = 1u << slab->first;
    const uint32_t claimed = hk_pool_claim(hk_map_owner(whole->base), false, ranges, &count);
    CHECK((claimed & own) != 0);
    CHECK_EQ(hk_os_advise(slab->base, HK_SLICE, HK_PURGE), 0);
    CHECK_EQ(hk_pool_unclaim(hk_map_owner(whole->base), claimed, own, false, &seen), page);
    CHECK_EQ(free_now().clean, before.clean + HK_SLICE);

    /* a slice all of whose pages are gone counts as one without memory */
    hk_pool_give(purged_slab(whole, false));
    CHECK_EQ(free_now().clean, before.clean + 2 * HK_SLICE);
    CHECK_EQ(free_now().slices, before.slices - 2 * HK_SLICE);
    hk_pool_give(whole);
    clear_the_way();
}

int main(void) {
    hk_store_relaxed(&hk_config.lean_decommit, (uint64_t)HK_DECOMMIT_OFF);
    hk_policy_apply(); /* nobody else purges */
    hak_free(hak_malloc(1));
    page = hk_os_page_size();
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            model_is_followed(cls, seed);
    slices_are_marked();
    what_is_gone_stays_gone();
    return 0;
}
