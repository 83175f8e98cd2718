#include "guard/header.h"

#include <stddef.h>
#include <string.h>

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
    return seal + hk_guard->seals; /* or it could be reckoned backwards to the secret */
}

void hk_header_seal(hk_header_t *header) { header->seal = seal_of(header); }

bool hk_header_is_sealed(const hk_header_t *header) { return header->seal == seal_of(header); }

static bool describes(const hk_header_t *header, const void *p) {
    return hk_header_is_sealed(header) && (size_t)((const char *)p - header->start) < header->bytes;
}

/* ---- where they are ----
 *
 * A table can be read all over, and written to where a block has been; so can a list of all of them. None goes back. */

#define TABLE_BYTES (HK_LEAF_SLICES * sizeof(hk_header_t))
typedef _Atomic(char *) hk_tables_t[HK_MAP_LEAVES]; /* atomic: any thread */
static _Atomic(hk_tables_t *) all;                  /* atomic: any thread */

static size_t leaf_of(const void *p) { return (uintptr_t)p >> HK_LEAF_SHIFT; }

static hk_header_t *in_table(char *table, const void *p) {
    return table != NULL ? (hk_header_t *)(void *)table + hk_map_slice(p) : NULL;
}

hk_header_t *hk_header_at(const void *p) {
    hk_tables_t *tables = hk_load_acquire(&all);
    return tables != NULL && leaf_of(p) < HK_MAP_LEAVES
               ? in_table(hk_load_acquire(&(*tables)[leaf_of(p)]), p)
               : NULL;
}

static hk_tables_t *all_tables(void) {
    hk_tables_t *is = hk_load_acquire(&all);
    if (HK_LIKELY(is != NULL))
        return is;
    hk_tables_t *made = hk_os_map(sizeof *made, hk_os_page_size());
    if (made != NULL && hk_cas_seq(&all, &is, made))
        return made;
    if (made != NULL)
        hk_os_unmap(made, sizeof *made);
    return is;
}

/* With a page before it and behind it that is never written to. */
static char *table_for(const void *p) {
    const size_t page = hk_os_page_size(), bytes = hk_align_up(TABLE_BYTES, page) + 2 * page;
    hk_tables_t *tables = all_tables();
    char *is = tables != NULL ? hk_load_acquire(&(*tables)[leaf_of(p)]) : NULL;
    if (HK_LIKELY(is != NULL) || tables == NULL)
        return is;
    char *made = hk_os_reserve(bytes);
    if (made != NULL && hk_cas_seq(&(*tables)[leaf_of(p)], &is, made + page))
        return made + page;
    if (made != NULL)
        hk_os_unmap(made, bytes);
    return is;
}

hk_header_t *hk_header_make(const void *p) {
    hk_header_t *header = in_table(table_for(p), p);
    const size_t page = hk_os_page_size();
    char *from = (char *)((uintptr_t)header & ~(page - 1));
    char *to = (char *)hk_align_up((uintptr_t)(header + 1), page);
    if (header == NULL || !hk_os_protect(from, (size_t)(to - from), HK_READ_WRITE))
        return NULL;
    (void)hk_load_acquire(&header->state); /* whoever had it before has left it */
    return header;
}

void hk_header_leave(hk_header_t *header) {
    header->seal++;
    hk_store_release(&header->state, (unsigned)HK_HEADER_FREE);
}

/* What describes p in that slice; NULL: nothing does. */
static hk_header_t *described_at(const char *slice, const void *p) {
    hk_header_t *header = hk_header_at(slice);
    return header != NULL && describes(header, p) ? header : NULL;
}

hk_header_t *hk_header_of(const void *p) { return described_at(p, p); }

/* The block starts in the first slice before that is no interior; before a block that begins a slice lies the one that p is in. */
const hk_header_t *hk_header_around(const void *p) {
    const char *own = (const char *)((uintptr_t)p & ~(uintptr_t)(HK_SLICE - 1)), *first = own;
    while (hk_map_kind(first) == HK_KIND_INTERIOR)
        first -= HK_SLICE;
    const hk_header_t *header = described_at(first, p);
    return header != NULL ? header : described_at(own + HK_SLICE, p);
}
