#include "guard/header.h"

#include <stddef.h>
#include <string.h>

#include "backend/limit.h"
#include "backend/own.h"
#include "backend/pagemap.h"

enum { WORDS = offsetof(hk_header_t, seal) / sizeof(uint64_t) };

static uint64_t seal_of(const hk_header_t *header) {
    uint64_t words[WORDS], seal = hk_guard->seals ^ (uintptr_t)header;
    _Static_assert(sizeof words == offsetof(hk_header_t, seal), "no padding, which has any value");
    memcpy(words, header, sizeof words);
    for (unsigned i = 0; i < WORDS; i++) {
        seal = (seal ^ words[i]) * 0x9FB21C651E98DF25u;
        seal ^= seal >> 32;
    }
    return seal + hk_guard->seals; /* else the secret could be computed back from a seal */
}

void hk_header_seal(hk_header_t *header) { header->seal = seal_of(header); }

bool hk_header_is_sealed(const hk_header_t *header) { return header->seal == seal_of(header); }

static bool describes(const hk_header_t *header, const void *p) {
    return hk_header_is_sealed(header) && (size_t)((const char *)p - header->start) < header->bytes;
}

/* ---- where headers are ----
 *
 * A table has a header for each slice of a leaf of the page map. It is readable throughout, and
 * writable where a block has been. Tables are never given back. */

#define TABLE_BYTES (HK_LEAF_SLICES * sizeof(hk_header_t))
enum { LEAST_PAGE = 4096 };
_Static_assert(TABLE_BYTES / LEAST_PAGE <= 64 * HK_LEAF_HEADER_WORDS, "a bit for each page");

hk_header_t *hk_header_at(const void *p) {
    hk_leaf_t *leaf = hk_map_leaf(p);
    char *table = leaf != NULL ? hk_load_acquire(&leaf->headers) : NULL;
    return table != NULL ? (hk_header_t *)(void *)table + hk_map_slice(p) : NULL;
}

/* Reserves the leaf's table between two pages that are never writable. False: the system
 * refuses. */
static bool has_table(hk_leaf_t *leaf) {
    const size_t page = hk_os_page_size(), bytes = hk_align_up(TABLE_BYTES, page) + 2 * page;
    char *is = hk_load_acquire(&leaf->headers);
    if (HK_LIKELY(is != NULL))
        return true;
    char *made = hk_os_reserve(bytes);
    if (made != NULL && hk_cas_seq(&leaf->headers, &is, made + page)) {
        hk_own_add(made, bytes);
        return true;
    }
    if (made != NULL)
        hk_os_unmap(made, bytes);
    return is != NULL;
}

/* Makes a page of the table writable for good; counts it once. */
static bool open_page(hk_leaf_t *leaf, size_t number) {
    const size_t page = hk_os_page_size();
    const uint64_t bit = (uint64_t)1 << number % 64;
    _Atomic uint64_t *word = &leaf->headers_open[number / 64];
    if ((hk_load_acquire(word) & bit) != 0)
        return true;
    if (!hk_os_protect(hk_load_acquire(&leaf->headers) + number * page, page, HK_READ_WRITE))
        return false;
    if ((hk_or_seq(word, bit) & bit) == 0)
        hk_own_is_written(page);
    return true;
}

hk_header_t *hk_header_make(const void *p) {
    const size_t page = hk_os_page_size(), begins = hk_map_slice(p) * sizeof(hk_header_t);
    const size_t first = begins / page, last = (begins + sizeof(hk_header_t) - 1) / page;
    hk_leaf_t *leaf = hk_map_leaf(p);
    if (!has_table(leaf) || !open_page(leaf, first) || (last != first && !open_page(leaf, last)))
        return NULL;
    hk_header_t *header = hk_header_at(p);
    (void)hk_load_acquire(&header->state); /* acquires what its previous user released */
    return header;
}

void hk_header_leave(hk_header_t *header) {
    header->seal++;
    hk_store_release(&header->state, (unsigned)HK_HEADER_FREE);
}

/* The header of that slice if it describes a mapping that contains p, else NULL. */
static hk_header_t *described_at(const char *slice, const void *p) {
    hk_header_t *header = hk_header_at(slice);
    return header != NULL && describes(header, p) ? header : NULL;
}

hk_header_t *hk_header_of(const void *p) { return described_at(p, p); }

/* Going back from p, the first slice that is not interior is the one in which the block starts. If
 * p lies before its block, the block may start in the next slice instead. */
const hk_header_t *hk_header_around(const void *p) {
    const char *own = (const char *)((uintptr_t)p & ~(uintptr_t)(HK_SLICE - 1)), *first = own;
    while (hk_map_kind(first) == HK_KIND_INTERIOR)
        first -= HK_SLICE;
    const hk_header_t *header = described_at(first, p);
    return header != NULL ? header : described_at(own + HK_SLICE, p);
}
