#include "backend/mappings.h"

#include "os/os.h"

/* Odd, so that both ends are readable pages: inaccessible ones might merge with what lies beside
 * them. */
enum { SPARE_PAGES = 17 };

static _Atomic(char *) spare; /* atomic: any thread */
static atomic_bool wanting;   /* atomic: any thread */

static size_t spare_bytes(void) { return SPARE_PAGES * hk_os_page_size(); }

bool hk_mappings_to_spare(void) {
    const size_t page = hk_os_page_size();
    if (HK_LIKELY(hk_load_relaxed(&spare) != NULL))
        return true;
    char *seen = NULL, *start = hk_os_fence(spare_bytes(), page);
    bool ok = start != NULL;
    for (size_t i = 0; ok && i < SPARE_PAGES; i += 2)
        ok = hk_os_protect(start + i * page, page, HK_READ);
    if (start != NULL) /* else addresses may be short instead */
        hk_store_relaxed(&wanting, !ok);
    if (ok && hk_cas_seq(&spare, &seen, start))
        return true;
    if (start != NULL)
        hk_os_unmap(start, spare_bytes());
    return ok;
}

bool hk_mappings_may_be_taken(void) { return hk_mappings_to_spare() || !hk_mappings_are_short(); }

bool hk_mappings_waited(atomic_uint *patience) {
    unsigned left = hk_load_relaxed(patience);
    if (left == 0)
        return true;
    if (left == 1 && hk_mappings_are_short() && !hk_mappings_to_spare())
        left = HK_PATIENCE;
    hk_store_relaxed(patience, left - 1); /* in a race two calls may count as one: harmless */
    return false;
}

bool hk_mappings_let_go(void) {
    char *start = hk_exchange_seq(&spare, NULL);
    if (start == NULL)
        return false;
    hk_os_unmap(start, spare_bytes());
    return true;
}

bool hk_mappings_are_short(void) { return hk_load_relaxed(&wanting); }
