#include "guard/nothing.h"

#include "backend/limit.h"
#include "backend/pagemap.h"
#include "guard/guard.h"
#include "os/os.h"

#define ALL_BYTES ((size_t)HK_NOTHINGS * HK_NOTHING_BYTES)

static _Atomic(char *) pages;                  /* atomic: made once, by any thread */
static _Atomic uint64_t out[HK_NOTHINGS / 64]; /* atomic: 1: the block is in use */
static _Atomic uint64_t had[HK_NOTHINGS / 64]; /* atomic: 1: it has ever been */

/* The page map knows the range before any thread can get a block of it. */
static char *made(void) {
    char *seen = NULL, *start = hk_map_committed(hk_os_fence(ALL_BYTES, HK_SLICE), ALL_BYTES);
    if (start == NULL)
        return NULL;
    hk_map_set(start, ALL_BYTES / HK_SLICE, HK_KIND_FENCED);
    if (hk_cas_seq(&pages, &seen, start))
        return start;
    hk_map_set(start, ALL_BYTES / HK_SLICE, HK_KIND_FOREIGN);
    hk_os_unmap(start, ALL_BYTES);
    return seen;
}

void *hk_nothing_take(uint32_t from) {
    enum { WORDS = HK_NOTHINGS / 64 };
    char *start = hk_load_acquire(&pages);
    if (start == NULL && (start = made()) == NULL)
        return NULL;
    for (uint32_t i = 0; i <= WORDS; i++) {
        const uint32_t w = (from / 64 + i) % WORDS;
        const uint64_t free =
            ~hk_load_relaxed(&out[w]) & (i == 0 ? UINT64_MAX << from % 64 : UINT64_MAX);
        if (free == 0)
            continue;
        const unsigned bit = (unsigned)__builtin_ctzll(free);
        if ((hk_or_seq(&out[w], (uint64_t)1 << bit) >> bit & 1) == 0) {
            hk_or_seq(&had[w], (uint64_t)1 << bit);
            hk_single_comes(0);
            return start + ((size_t)w * 64 + bit) * HK_NOTHING_BYTES;
        }
    }
    return NULL;
}

static size_t number_of(const void *p) {
    return (size_t)((const char *)p - hk_load_relaxed(&pages)) / HK_NOTHING_BYTES;
}

bool hk_nothing_has(const void *p) {
    return hk_load_acquire(&pages) != NULL && number_of(p) < HK_NOTHINGS;
}

static bool is_in(_Atomic uint64_t *set, const void *p) {
    const size_t number = number_of(p);
    return hk_is_aligned((uintptr_t)p, HK_NOTHING_BYTES) &&
           (hk_load_relaxed(&set[number / 64]) >> number % 64 & 1) != 0;
}

bool hk_nothing_is_out(const void *p) { return is_in(out, p); }
bool hk_nothing_was_out(const void *p) { return is_in(had, p); }

void hk_nothing_give(void *p) {
    const size_t number = number_of(p);
    const uint64_t bit = (uint64_t)1 << number % 64;
    if (!hk_nothing_was_out(p))
        hk_guard_fault(HK_INVALID_FREE, p, 0, HK_NOWHERE);
    else if ((hk_and_seq(&out[number / 64], ~bit) & bit) == 0)
        hk_guard_fault(HK_DOUBLE_FREE, p, 0, HK_NOWHERE);
    else
        hk_single_goes(0);
}
