#include "guard/header.h"

#include <stddef.h>
#include <string.h>

#include "backend/pagemap.h"
#include "os/os.h"

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

/* What is there may be anything, and inaccessible. */
static bool is_there(const char *slice, const void *p) {
    return hk_os_readable(slice) && describes((const void *)slice, p);
}

/* Of an address inside a freed block that begins a slice, reading that is a fault, which the handler tells. */
hk_header_t *hk_header_of(const void *p) {
    char *own = (char *)((uintptr_t)p & ~(uintptr_t)(HK_SLICE - 1)), *before = own - HK_SLICE;
    if (HK_LIKELY(own != p) && HK_LIKELY(describes((hk_header_t *)(void *)own, p)))
        return (hk_header_t *)(void *)own;
    return hk_map_kind(before) == HK_KIND_INTERIOR && is_there(before, p)
               ? (hk_header_t *)(void *)before
               : NULL;
}

/* It lies where the first slice that is no interior says or, of a block that begins a slice, in the one before; of such
 * a block, what is before it is in the header's own. */
const hk_header_t *hk_header_around(const void *p) {
    const char *own = (const char *)((uintptr_t)p & ~(uintptr_t)(HK_SLICE - 1)), *first = own;
    while (hk_map_kind(first) == HK_KIND_INTERIOR)
        first -= HK_SLICE;
    const char *at = is_there(first, p)              ? first
                     : is_there(first - HK_SLICE, p) ? first - HK_SLICE
                     : is_there(own, p)              ? own
                                                     : NULL;
    return (const void *)at;
}
