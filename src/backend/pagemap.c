#include "backend/pagemap.h"

#include "backend/limit.h"
#include "backend/mappings.h"
#include "base/calls.h"
#include "os/os.h"

_Static_assert(HK_LEAF_SLICES *HK_SLICE == HK_LEAF_UNITS * HK_UNIT,
               "both cover the same addresses");

static _Atomic(hk_leaf_t *) made; /* atomic: every leaf; push only */
_Atomic(hk_leaf_t *) hk_map_root[HK_MAP_LEAVES];
static _Atomic uint8_t no_map[1]; /* where hk_flat points while there is no flat map */

atomic_bool hk_map_is_limited, hk_map_refused;

hk_flat_t hk_flat = {.bytes = no_map, .mask = 0};

void hk_map_init(void) {
    hk_assert(!hk_map_has_flat() && hk_flat.bytes == no_map); /* called once */
    void *reserved = NULL;
    const uint64_t most = hk_os_address_limit();
    hk_store_relaxed(&hk_map_is_limited, most <= SIZE_MAX / 2);
    if (most >= HK_MAP_BYTES + HK_MAP_ROOM)
        reserved = hk_os_reserve(HK_MAP_BYTES);
    if (reserved == NULL)
        return;
    /* Kept out of core dumps, which a debugger would write in full; the two-level map has the same
     * kinds. */
    hk_os_advise(reserved, HK_MAP_BYTES, HK_NO_DUMP);
    hk_flat.bytes = reserved;
    hk_store_relaxed(&hk_flat.mask, HK_MAP_BYTES - 1);
}

/* Whether the part of the flat map for the i-th 4 GiB stays when the map is given up. The mask is 0
 * already: a thread whose new leaf is not seen here reads the mask after it has added the leaf
 * (hk_map_commit). */
static bool stays(size_t i, size_t at_break) {
    enum { NEAR = 4 };
    const size_t first = hk_minus(i, NEAR), last = hk_min(i + NEAR, HK_MAP_LEAVES - 1);
    bool near_ours = false;
    for (size_t at = first; at <= last; at++)
        near_ours |= at == at_break || hk_load_seq(&hk_map_root[at]) != NULL;
    return i == 0 || near_ours;
}

void hk_map_give_up_flat(void) {
    const size_t at_break = (uintptr_t)HK_COUNTED(other, syscall(SYS_brk, NULL)) >> HK_LEAF_SHIFT;
    uint8_t *flat = (uint8_t *)hk_flat.bytes;
    hk_assert(hk_flat.bytes != no_map); /* there is one to give up */
    hk_store_seq(&hk_flat.mask, (uintptr_t)0);
    for (size_t i = 0, end; i < HK_MAP_LEAVES; i = end + 1) {
        for (end = i; end < HK_MAP_LEAVES && !stays(end, at_break);)
            end++;
        uint8_t *from = flat + i * HK_LEAF_SLICES;
        const size_t bytes = (end - i) * HK_LEAF_SLICES;
        if (end != i && !hk_os_unmap(from, bytes) && hk_mappings_let_go())
            hk_os_unmap(from, bytes); /* to cut a mapping takes one more */
    }
}

static size_t leaf_bytes(void) { return hk_align_up(sizeof(hk_leaf_t), hk_os_page_size()); }

/* Makes a leaf in `memory`, which is zeroed. Returns it, or the leaf that another thread has added
 * meanwhile. */
static hk_leaf_t *leaf_add(uintptr_t a, void *memory) {
    hk_leaf_t *leaf = memory, *seen = NULL;
    hk_assert(a >> HK_ADDRESS_BITS == 0);
    leaf->first = a >> HK_LEAF_SHIFT << HK_LEAF_SHIFT;
    if (!hk_cas_seq(&hk_map_root[a >> HK_LEAF_SHIFT], &seen, leaf))
        return seen;
    HK_PUSH(&made, leaf->made_next, leaf);
    hk_mapped_own(leaf_bytes());
    return leaf;
}

static hk_leaf_t *leaf_make(uintptr_t a) {
    void *memory = hk_os_map(leaf_bytes(), hk_os_page_size());
    if (memory == NULL)
        return NULL;
    hk_leaf_t *leaf = leaf_add(a, memory);
    if (leaf != memory)
        hk_os_unmap(memory, leaf_bytes());
    return leaf;
}

/* The bit of the OS page that holds the slice's byte, among those of a leaf's part of the flat
 * map. */
static unsigned page_bit(size_t slice, size_t page) {
    return 1u << ((slice & (HK_LEAF_SLICES - 1)) >> __builtin_ctzll(page));
}

/* Makes the OS page of the flat map with the byte of slice number `slice` writable. Idempotent: two
 * threads may do so at once. */
static bool flat_commit(hk_leaf_t *leaf, size_t slice) {
    size_t page = hk_os_page_size();
    hk_assert(HK_LEAF_SLICES / page <= 32); /* `committed` has a bit for each */
    hk_assert(slice >> (HK_LEAF_SHIFT - HK_SLICE_SHIFT) == leaf->first >> HK_LEAF_SHIFT);
    const unsigned bit = page_bit(slice, page);
    if (hk_load_acquire(&leaf->committed) & bit)
        return true;
    uint8_t *start = (uint8_t *)hk_flat.bytes + (slice & ~(page - 1));
    if (!hk_os_protect(start, page, HK_READ_WRITE)) {
        hk_store_relaxed(&hk_map_refused, true);
        return false;
    }
    if ((hk_or_seq(&leaf->committed, bit) & bit) == 0)
        hk_mapped_own(page);
    return true;
}

/* Asks for the access that a leaf has already, which needs neither memory nor a mapping: if that is
 * refused, so is everything. */
bool hk_map_refuses_all(void) {
    hk_leaf_t *leaf = hk_load_acquire(&made);
    hk_store_relaxed(&hk_map_refused, false);
    return leaf != NULL && !hk_os_protect(leaf, hk_os_page_size(), HK_READ_WRITE);
}

/* Whether the flat map has a byte for the slice: not after it was given up, nor if it did not exist
 * yet when the leaf was prepared (by a signal handler that interrupted the process's first
 * allocation). */
static bool is_flat(const hk_leaf_t *leaf, size_t slice, size_t page) {
    return hk_map_has_flat() && (hk_load_acquire(&leaf->committed) & page_bit(slice, page)) != 0;
}

void hk_map_is_valid(const void *p, size_t slices) {
    const uintptr_t a = (uintptr_t)p;
    hk_assert(hk_is_aligned(a, HK_SLICE));
    for (size_t i = 0; i < slices && hk_map_has_flat(); i++) {
        unsigned flat = hk_load_relaxed(&hk_flat.bytes[(a >> HK_SLICE_SHIFT) + i]);
        unsigned kind = hk_map_kind((const char *)p + i * HK_SLICE);
        hk_assert(kind < HK_KIND_COUNT);
        hk_assert(flat == kind || !hk_map_has_flat()); /* it may be given up at any moment */
    }
}

bool hk_map_commit(const void *p, size_t bytes) {
    uintptr_t first = (uintptr_t)p, end = first + bytes;
    hk_assert(bytes != 0 && end > first && (end - 1) >> HK_ADDRESS_BITS == 0);
    hk_assert(hk_is_aligned(first, HK_SLICE));
    for (uintptr_t a = first; a < end;) {
        hk_leaf_t *leaf = hk_map_leaf((const void *)a);
        if (leaf == NULL && (leaf = leaf_make(a)) == NULL)
            return false;
        if (hk_load_seq(&hk_flat.mask) != 0 && !flat_commit(leaf, a >> HK_SLICE_SHIFT) &&
            hk_map_has_flat())
            return false; /* refused, and the flat map was not given up meanwhile */
        /* on to the first address of the next OS page of the flat map */
        uintptr_t step = (uintptr_t)hk_os_page_size() << HK_SLICE_SHIFT;
        a = (a & ~(step - 1)) + step;
    }
    return true;
}

size_t hk_map_spare_for(size_t bytes) { return ((bytes >> HK_LEAF_SHIFT) + 2) * leaf_bytes(); }

void hk_map_commit_from(const void *p, size_t bytes, char **spare) {
    const uintptr_t first = (uintptr_t)p, end = first + bytes;
    hk_assert(!hk_map_has_flat() && bytes != 0);
    for (uintptr_t a = first; a < end; a = ((a >> HK_LEAF_SHIFT) + 1) << HK_LEAF_SHIFT)
        if (hk_map_leaf((const void *)a) == NULL && (char *)leaf_add(a, *spare) == *spare)
            *spare += leaf_bytes();
}

void *hk_map_committed(void *p, size_t bytes) {
    if (p == NULL || hk_map_commit(p, bytes))
        return p;
    hk_os_unmap(p, bytes);
    return NULL;
}

typedef _Atomic uint64_t __attribute__((may_alias)) word_t; /* eight kinds */

/* Writes n kinds. A single one is a release store, so that a thread which sees that a large block
 * starts there also sees what its descriptor says. */
static HK_NOINLINE void fill(_Atomic uint8_t *at, size_t n, uint8_t kind) {
    const uint64_t word = kind * (UINT64_MAX / UINT8_MAX);
    _Atomic uint8_t *const end = at + n;
    for (; at < end && !hk_is_aligned((uintptr_t)at, sizeof word); at++)
        hk_store_release(at, kind);
    for (; (size_t)(end - at) >= sizeof word; at += sizeof word)
        hk_store_relaxed((word_t *)(void *)at, word);
    for (; at < end; at++)
        hk_store_release(at, kind);
}

void hk_map_set(const void *p, size_t slices, unsigned kind) {
    const size_t first = (uintptr_t)p >> HK_SLICE_SHIFT, page = hk_os_page_size();
    hk_assert(hk_is_aligned((uintptr_t)p, HK_SLICE) && kind < HK_KIND_COUNT);
    for (size_t at = first, end = first + slices, n; at != end; at += n) {
        n = hk_min(end - at,
                   page - (at & (page - 1))); /* within one leaf, and one OS page of the flat map */
        hk_leaf_t *leaf = hk_map_leaf((const void *)(at << HK_SLICE_SHIFT));
        hk_assert(leaf != NULL && leaf->first >> HK_SLICE_SHIFT == (at & ~(HK_LEAF_SLICES - 1)));
        if ((hk_load_relaxed(&leaf->written) & page_bit(at, page)) == 0)
            hk_or_seq(&leaf->written, page_bit(at, page));
        fill(&leaf->kind[at & (HK_LEAF_SLICES - 1)], n, (uint8_t)kind);
        if (is_flat(leaf, at, page))
            fill(&hk_flat.bytes[at], n, (uint8_t)kind);
    }
}

bool hk_map_change(const void *p, unsigned from, unsigned to) {
    const uintptr_t a = (uintptr_t)p;
    uint8_t seen = (uint8_t)from;
    hk_leaf_t *leaf = hk_map_leaf(p);
    hk_assert(hk_is_aligned(a, HK_SLICE) && to < HK_KIND_COUNT);
    if (!hk_cas_seq(&leaf->kind[hk_map_slice(p)], &seen, (uint8_t)to))
        return false;
    if (is_flat(leaf, a >> HK_SLICE_SHIFT, hk_os_page_size()))
        hk_store_relaxed(&hk_flat.bytes[a >> HK_SLICE_SHIFT], (uint8_t)to);
    return true;
}

unsigned hk_map_kind(const void *p) {
    hk_leaf_t *leaf = hk_map_leaf(p);
    return leaf == NULL ? HK_KIND_FOREIGN : hk_load_relaxed(&leaf->kind[hk_map_slice(p)]);
}

bool hk_map_has_large(const void *p) {
    return hk_load_seq(&hk_map_leaf(p)->kind[hk_map_slice(p)]) == HK_KIND_LARGE;
}

void *hk_map_set_owner(const void *p, void *descriptor) {
    hk_assert(hk_map_leaf(p) != NULL);
    return hk_exchange_seq(&hk_map_leaf(p)->owner[hk_map_unit(p)], descriptor);
}

void *hk_map_owner(const void *p) {
    hk_leaf_t *leaf = hk_map_leaf(p);
    return leaf == NULL ? NULL : hk_load_acquire(&leaf->owner[hk_map_unit(p)]);
}

/* ---- visiting ---- */

/* Visits n slices from the i-th on. Most are foreign, so a whole word of these is skipped at
 * once. */
static void visit_slices(const hk_leaf_t *leaf, size_t i, size_t n, hk_map_visitor_t *visit,
                         void *argument) {
    const size_t per_unit = HK_UNIT / HK_SLICE, end = i + n;
    _Static_assert(HK_KIND_FOREIGN == 0, "a word of such is 0");
    while (i < end) {
        const _Atomic uint8_t *kinds = &leaf->kind[i];
        if (i % sizeof(word_t) == 0 && hk_load_relaxed((const word_t *)(const void *)kinds) == 0) {
            i += sizeof(word_t);
            continue;
        }
        for (n = 0; n < per_unit - i % per_unit && hk_load_relaxed(&kinds[n]) != HK_KIND_FOREIGN;)
            n++;
        if (n != 0)
            visit((const char *)leaf->first + i * HK_SLICE, n, kinds, argument);
        i += hk_max(n, 1);
    }
}

/* Skips parts never written to: reading them would fault in each page. */
void hk_map_visit(hk_map_visitor_t *visit, void *argument) {
    const size_t page = hk_os_page_size();
    for (hk_leaf_t *leaf = hk_load_acquire(&made); leaf != NULL; leaf = leaf->made_next)
        for (size_t i = 0; i < HK_LEAF_SLICES; i += page)
            if ((hk_load_relaxed(&leaf->written) & page_bit(i, page)) != 0)
                visit_slices(leaf, i, hk_min(page, HK_LEAF_SLICES - i), visit, argument);
}

void hk_map_visit_own(void (*visit)(const void *start, size_t bytes, void *argument),
                      void *argument) {
    const size_t page = hk_os_page_size();
    for (hk_leaf_t *leaf = hk_load_acquire(&made); leaf != NULL; leaf = leaf->made_next) {
        visit(leaf, leaf_bytes(), argument);
        const uint8_t *flat = (const uint8_t *)hk_flat.bytes + (leaf->first >> HK_SLICE_SHIFT);
        for (unsigned i = 0, bits = hk_load_acquire(&leaf->committed); bits >> i != 0; i++)
            if (bits >> i & 1)
                visit(flat + i * page, page, argument);
    }
}
