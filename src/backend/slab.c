#include "backend/slab.h"

#include "base/counters.h"

HK_INLINE unsigned page_shift(void) { return (unsigned)__builtin_ctzl(hk_os_page_size()); }

HK_INLINE const hk_class_t *class_of(const hk_slab_t *slab) {
    hk_assert(slab->cls != 0 && slab->cls < HK_CLASS_COUNT); /* a large run has no blocks */
    return &hk_classes[slab->cls];
}

/* ---- marks ---- */

static void note_marks(hk_slab_t *slab) {
    slab->marked = (hk_load_relaxed(&slab->clean) | slab->seen) != 0;
}

/* The pages that blocks lo .. hi overlap. */
HK_INLINE uint64_t pages_of_blocks(const hk_class_t *c, unsigned lo, unsigned hi) {
    const unsigned shift = page_shift();
    hk_assert(lo <= hi && hi < c->blocks);
    unsigned first = (unsigned)((size_t)lo * c->size >> shift);
    unsigned last = (unsigned)((((size_t)hi + 1) * c->size - 1) >> shift);
    return hk_bits(first, last - first + 1);
}

/* The blocks that pages first .. last overlap; false if none does (pages behind the last block). */
HK_INLINE bool blocks_of_pages(const hk_class_t *c, unsigned first, unsigned last, unsigned *lo,
                               unsigned *hi) {
    const unsigned shift = page_shift();
    *lo = hk_class_index(c, (size_t)first << shift);
    *hi = (unsigned)hk_min(hk_class_index(c, ((size_t)(last + 1) << shift) - 1), c->blocks - 1u);
    return *lo < c->blocks;
}

/* Removes the first run of 1s from *pages. */
HK_INLINE void next_run(uint64_t *pages, unsigned *first, unsigned *n) {
    hk_assert(*pages != 0);
    *first = (unsigned)__builtin_ctzll(*pages);
    uint64_t ones = ~(*pages >> *first);
    *n = ones == 0 ? 64 : (unsigned)__builtin_ctzll(ones); /* 0s come in from above */
    *pages &= ~hk_bits(*first, *n);
}

/* All pages with a block on them, not those behind the last block. */
HK_INLINE uint64_t used_pages(const hk_class_t *c) { return pages_of_blocks(c, 0, c->blocks - 1u); }

void hk_slab_mark_slices(hk_slab_t *slab, uint32_t clean, uint32_t lazy, uint32_t purged,
                         const uint16_t *gone) {
    const unsigned per_slice = (unsigned)(HK_SLICE >> page_shift());
    const uint64_t used = used_pages(class_of(slab));
    hk_assert((clean & lazy) == 0); /* pages without memory are not lazy as well */
    uint64_t clean_pages = 0, lazy_pages = 0, purged_pages = 0;
    for (unsigned i = 0; i < slab->slices; i++) {
        uint64_t pages = hk_bits(i * per_slice, per_slice) & used;
        clean_pages |= (clean | lazy) >> i & 1 ? pages : 0;
        lazy_pages |= lazy >> i & 1 ? pages : 0;
        purged_pages |= purged >> i & 1 ? pages : (uint64_t)gone[i] << i * per_slice & pages;
    }
    hk_store_relaxed(&slab->clean, clean_pages | purged_pages);
    hk_store_relaxed(&slab->lazy, lazy_pages);
    slab->seen = 0;
    slab->purged = purged_pages;
    note_marks(slab);
}

/* ---- taking blocks ---- */

/* The blocks of bitmap word w that overlap a clean page. */
static uint64_t on_clean_pages(const hk_slab_t *slab, unsigned w) {
    const hk_class_t *c = class_of(slab);
    const uint64_t clean = hk_load_relaxed(&slab->clean);
    const unsigned lo = w * 64, hi = (unsigned)hk_min(lo + 63, c->blocks - 1u);
    const uint64_t pages = pages_of_blocks(c, lo, hi);
    if ((pages & clean) == 0 || (pages & ~clean) == 0)
        return (pages & clean) == 0 ? 0 : UINT64_MAX;
    uint64_t left = pages & clean, mask = 0;
    for (unsigned page, n, first, last; left != 0;) {
        next_run(&left, &page, &n);
        blocks_of_pages(c, page, page + n - 1, &first, &last);
        first = (unsigned)hk_max(first, lo);
        last = (unsigned)hk_min(last, hi);
        mask |= hk_bits(first - lo, last - first + 1);
    }
    return mask;
}

/* The bitmap words with blocks that overlap the pages. */
static uint64_t words_of_pages(const hk_class_t *c, uint64_t pages) {
    uint64_t words = 0;
    for (unsigned page, n, lo, hi; pages != 0;) {
        next_run(&pages, &page, &n);
        if (blocks_of_pages(c, page, page + n - 1, &lo, &hi))
            words |= hk_bits(lo / 64, hi / 64 - lo / 64 + 1);
    }
    return words;
}

HK_INLINE void set_word(hk_slab_t *slab, unsigned w, uint64_t bits) {
    slab->bits[w] = bits;
    if (bits == 0)
        slab->summary &= ~((uint64_t)1 << w);
}

/* Writes the addresses of `run` adjacent blocks from `first` on, the highest one first. */
static HK_NOINLINE void write_downwards(void **out, char *first, unsigned run, size_t size) {
    const uint64_t last = (uintptr_t)first + (run - 1) * size;
    hk_two_t next = {last, last - size};
    if (run % 2 != 0)
        out[run - 1] = first;
    for (unsigned i = 0; i + 1 < run; i += 2) {
        *(hk_two_t *)(out + i) = next;
        next -= 2 * size;
    }
}

/* Takes up to n of the blocks in `from`, a subset of word w; returns how many, and adds the pages
 * they lie on to *pages. */
static unsigned take_bits(hk_slab_t *slab, unsigned w, uint64_t from, void **end, unsigned n,
                          uint64_t *pages) {
    const hk_class_t *c = class_of(slab);
    const size_t size = c->size;
    unsigned taken = 0, at, run;
    uint64_t left = slab->bits[w];
    hk_assert((from & ~left) == 0);
    while (taken < n && from != 0) {
        next_run(&from, &at, &run);
        run = (unsigned)hk_min(run, n - taken);
        left &= ~hk_bits(at, run);
        at += w * 64;
        *pages |= pages_of_blocks(c, at, at + run - 1);
        taken += run;
        write_downwards(end - taken, slab->base + at * size, run, size);
    }
    set_word(slab, w, left);
    return taken;
}

/* Blocks on dirty pages first: their memory is there already, and the system can keep that of clean
 * pages. */
static HK_NOINLINE void take_marked(hk_slab_t *slab, void **end, unsigned n) {
    const uint64_t clean = hk_load_relaxed(&slab->clean);
    const uint64_t dirty = words_of_pages(class_of(slab), used_pages(class_of(slab)) & ~clean);
    uint64_t pages = 0;
    for (unsigned pass = dirty == 0 ? 1 : 0; n != 0; pass++) {
        hk_assert(pass < 2);
        uint64_t words = slab->summary & (pass == 0 ? dirty : UINT64_MAX);
        for (; words != 0 && n != 0; words &= words - 1) {
            unsigned w = (unsigned)__builtin_ctzll(words);
            uint64_t from = slab->bits[w] & (pass == 0 ? ~on_clean_pages(slab, w) : UINT64_MAX);
            if (from == 0)
                continue;
            unsigned taken = take_bits(slab, w, from, end, n, &pages);
            end -= taken;
            n -= taken;
        }
    }
    if ((pages & clean) != 0) { /* avoids the write to the counters' cache line */
        hk_count(touched, (uint64_t)hk_ones(pages & clean) << page_shift());
        if ((pages & slab->purged) != 0)
            hk_add_relaxed(&hk_pool_retaken, (uint64_t)hk_ones(pages & slab->purged)
                                                 << page_shift());
        slab->purged &= ~pages;
        hk_store_relaxed(&slab->clean, clean & ~pages);
        hk_store_relaxed(&slab->lazy, hk_load_relaxed(&slab->lazy) & ~pages);
    }
    slab->seen &= ~pages;
    note_marks(slab);
}

/* If all blocks of a word from its first free one on are free, their addresses are written in one
 * sweep. */
static void take_unmarked(hk_slab_t *slab, void **end, unsigned n) {
    const size_t size = class_of(slab)->size;
    while (n != 0) {
        hk_assert(slab->summary != 0); /* because free >= n */
        unsigned w = (unsigned)__builtin_ctzll(slab->summary);
        uint64_t bits = slab->bits[w];
        char *first = slab->base + w * 64 * size;
        if (bits + (bits & -bits) == 0) {
            const unsigned at = (unsigned)__builtin_ctzll(bits), run = (unsigned)hk_min(64 - at, n);
            end -= run;
            write_downwards(end, first + at * size, run, size);
            n -= run;
            bits &= ~hk_bits(at, run);
        } else {
            do {
                *--end = first + (unsigned)__builtin_ctzll(bits) * size;
                bits &= bits - 1;
            } while (--n != 0 && bits != 0);
        }
        set_word(slab, w, bits);
    }
}

void hk_slab_take(hk_slab_t *slab, void **end, unsigned n) {
    hk_assert(n <= hk_load_relaxed(&slab->free));
    hk_store_relaxed(&slab->free, (uint16_t)(hk_load_relaxed(&slab->free) - n));
    if (HK_UNLIKELY(slab->marked))
        take_marked(slab, end, n);
    else
        take_unmarked(slab, end, n);
    hk_walk(hk_slab_is_valid(slab));
}

/* ---- pages ---- */

static bool all_free(const uint64_t *bits, unsigned lo, unsigned hi) {
    for (unsigned w = lo / 64; w <= hi / 64; w++)
        if ((~bits[w] & hk_bits_in(w, lo, hi)) != 0)
            return false;
    return true;
}

uint64_t hk_slab_free_pages(const hk_slab_t *slab, const uint64_t *bits) {
    const hk_class_t *c = class_of(slab);
    uint64_t pages = 0;
    unsigned lo, hi;
    for (unsigned page = 0; page < slab->slices * HK_SLICE >> page_shift(); page++)
        if (!blocks_of_pages(c, page, page, &lo, &hi) || all_free(bits, lo, hi))
            pages |= (uint64_t)1 << page;
    return pages;
}

/* Sets or clears the bits of blocks lo .. hi; returns how many changed. */
static unsigned put_blocks(hk_slab_t *slab, unsigned lo, unsigned hi, bool free) {
    unsigned changed = 0;
    hk_assert(lo <= hi && hi < class_of(slab)->blocks);
    for (unsigned w = lo / 64; w <= hi / 64; w++) {
        const uint64_t mask = hk_bits_in(w, lo, hi), before = slab->bits[w];
        uint64_t after = free ? before | mask : before & ~mask;
        changed += hk_ones(before ^ after);
        slab->summary |= (uint64_t)1 << w;
        set_word(slab, w, after);
    }
    return changed;
}

/* The same for all blocks that overlap the pages. A block may overlap two runs of pages, with clean
 * pages between; it is counted once. */
static unsigned put_pages(hk_slab_t *slab, uint64_t pages, bool free) {
    unsigned changed = 0, first, n, lo, hi;
    while (pages != 0) {
        next_run(&pages, &first, &n);
        bool any = blocks_of_pages(class_of(slab), first, first + n - 1, &lo, &hi);
        hk_assert(any); /* pages behind the last block are never claimed */
        changed += put_blocks(slab, lo, hi, free);
    }
    return changed;
}

/* No block on the pages has its free bit set, so no thread can get one; and no page is marked clean
 * or seen. */
HK_WALKER static void is_claimed(const hk_slab_t *slab, uint64_t pages) {
    unsigned lo, hi;
    hk_assert((pages & ~used_pages(class_of(slab))) == 0);
    hk_assert((pages & (hk_load_relaxed(&slab->clean) | slab->seen)) == 0);
    for (unsigned first, n; pages != 0;) {
        next_run(&pages, &first, &n);
        blocks_of_pages(class_of(slab), first, first + n - 1, &lo, &hi);
        for (unsigned w = lo / 64; w <= hi / 64; w++)
            hk_assert((slab->bits[w] & hk_bits_in(w, lo, hi)) == 0);
    }
}

uint64_t hk_slab_claim(hk_slab_t *slab, hk_claim_t which) {
    if (which == HK_CLAIM_LAZY_TOO) {
        const uint64_t lazy = hk_load_relaxed(&slab->lazy);
        hk_store_relaxed(&slab->clean, hk_load_relaxed(&slab->clean) & ~lazy);
        slab->purged &= ~lazy;
        hk_store_relaxed(&slab->lazy, (uint64_t)0);
    }
    uint64_t dirty = hk_slab_free_pages(slab, slab->bits) & used_pages(class_of(slab)) &
                     ~hk_load_relaxed(&slab->clean);
    uint64_t pages = which == HK_CLAIM_AGED ? dirty & slab->seen : dirty;
    slab->seen = dirty & ~pages;
    note_marks(slab);
    unsigned blocks = put_pages(slab, pages, false);
    hk_assert((blocks != 0) == (pages != 0));
    hk_walk(is_claimed(slab, pages));
    hk_store_relaxed(&slab->free, (uint16_t)(hk_load_relaxed(&slab->free) - blocks));
    hk_walk(hk_slab_is_valid(slab));
    return pages;
}

unsigned hk_slab_unclaim(hk_slab_t *slab, uint64_t pages, uint64_t purged, bool lazily) {
    hk_walk(is_claimed(slab, pages));
    hk_assert((purged & ~pages) == 0);
    hk_store_relaxed(&slab->clean, hk_load_relaxed(&slab->clean) | purged);
    slab->purged |= purged;
    if (lazily)
        hk_store_relaxed(&slab->lazy, hk_load_relaxed(&slab->lazy) | purged);
    note_marks(slab);
    return put_pages(slab, pages, true);
}

unsigned hk_mask_ranges(char *base, uint64_t mask, size_t bytes, hk_os_range_t *ranges) {
    unsigned count = 0, first, n;
    while (mask != 0) {
        next_run(&mask, &first, &n);
        hk_assert(count < 32);
        ranges[count++] = (hk_os_range_t){base + first * bytes, n * bytes};
    }
    return count;
}

size_t hk_slab_clean_bytes(const hk_slab_t *slab) {
    return (size_t)hk_ones(hk_load_relaxed(&slab->clean)) << page_shift();
}

/* If a block is free with probability p, all k blocks on a page are free with probability p^k. */
size_t hk_slab_likely_bytes(const hk_slab_t *slab, size_t dirty) {
    enum { ONE = 1 << 15 };
    const hk_class_t *c = class_of(slab);
    uint32_t share = hk_load_relaxed(&slab->free) * (uint32_t)ONE / c->blocks, power = ONE;
    if (share == 0 || share == ONE)
        return share == 0 ? 0 : dirty;
    for (size_t left = 1 + hk_os_page_size() / c->size; left != 0; left /= 2) {
        power = left % 2 != 0 ? power * share / ONE : power;
        share = share * share / ONE;
    }
    return dirty * power / ONE;
}

size_t hk_slab_dirty_bytes(const hk_slab_t *slab) {
    const hk_class_t *c = class_of(slab);
    size_t free = (size_t)hk_load_relaxed(&slab->free) * c->size, end = (size_t)c->blocks * c->size;
    if (free == 0)
        return 0;
    /* the last page counts as whole, as it does in `clean` */
    free += hk_align_up(end, hk_os_page_size()) - end;
    return free - hk_min(free, hk_slab_clean_bytes(slab));
}

void hk_slab_is_valid(const hk_slab_t *slab) {
    const hk_class_t *c = class_of(slab);
    unsigned free = 0, words = (c->blocks + 63u) / 64;
    for (unsigned w = 0; w < words; w++) {
        free += hk_ones(slab->bits[w]);
        hk_assert((slab->bits[w] != 0) == (slab->summary >> w & 1));
    }
    hk_assert(free == hk_load_relaxed(&slab->free));
    hk_assert(free <= c->blocks);
    hk_assert(c->blocks % 64 == 0 || slab->bits[words - 1] >> (c->blocks % 64) == 0);
    hk_assert(words == 64 || slab->summary >> words == 0);
    hk_assert(slab->slices == c->slices && hk_is_aligned((uintptr_t)slab->base, HK_SLICE));
    hk_assert(((uintptr_t)slab->base >> HK_SLICE_SHIFT) % HK_SLICES == slab->first);
    hk_assert(((hk_load_relaxed(&slab->clean) | slab->seen) & ~used_pages(c)) == 0);
    hk_assert((slab->seen & hk_load_relaxed(&slab->clean)) == 0);
    hk_assert((slab->purged & ~hk_load_relaxed(&slab->clean)) == 0);
    hk_assert((hk_load_relaxed(&slab->lazy) & ~hk_load_relaxed(&slab->clean)) == 0);
    hk_assert(slab->marked == ((hk_load_relaxed(&slab->clean) | slab->seen) != 0));
}
