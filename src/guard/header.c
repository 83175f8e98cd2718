#include "guard/header.h"

#include <stddef.h>
#include <string.h>

#include "backend/pagemap.h"
#include "backend/sidetable.h"

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

hk_header_t *hk_header_at(const void *p) { return hk_side_at(p); }

hk_header_t *hk_header_make(const void *p) {
    _Static_assert(sizeof(hk_header_t) == HK_SIDE_BYTES, "it has room there, and no more");
    hk_header_t *header = hk_side_make(p);
    if (header != NULL)
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
