#include "front/boundary.h"

#include <errno.h>

#include "backend/region.h"
#include "front/thread.h"
#include "guard/freed.h"
#include "os/os.h"

/* More than any limit that matters; a request above it fails for its own sake. */
#define BOUNDED_MOST ((size_t)32 << 30)

static atomic_bool limit_is_new; /* atomic: any thread; no thread has looked since it was set */

static bool flat_map_fits(size_t wanted) {
    if (HK_LIKELY(!hk_load_relaxed(&limit_is_new)))
        return !hk_region_is_bounded() || hk_region_grants_addresses(wanted);
    hk_store_seq(&limit_is_new, false); /* first: another limit may be set during the look */
    if (hk_region_grants_addresses(hk_max(wanted, HK_MAP_ROOM)))
        return true;
    hk_store_seq(&limit_is_new, true); /* until the map has gone */
    return false;
}

HK_COLD bool hk_bounds_look(size_t wanted) {
    wanted = hk_min(wanted, BOUNDED_MOST);
    bool news = hk_region_look_at_bounds(wanted);
    if (news && hk_guarded())
        hk_freed_trim(); /* waiting blocks hold addresses, kept ones memory: both are wanted */
    if (!hk_map_has_flat() || (!hk_map_is_refused() && flat_map_fits(wanted)))
        return news;
    hk_threads_give_up_flat_map();
    return true;
}

void hk_data_limited(void) {
    hk_region_read_data_limit();
    hk_store_relaxed(&hk_region_look_is_due, true);
}

/* Where the process has not allocated yet, its first allocation looks. If another thread has
 * noticed the limit first, and is giving the map back, this waits for the end of that before the
 * program goes on. */
void hk_addresses_limited(bool own) {
    const int saved = errno;
    if (own && hk_os_address_limit() <= SIZE_MAX / 2)
        hk_store_relaxed(&hk_map_is_limited, true);
    hk_store_relaxed(&limit_is_new, true);
    hk_store_relaxed(&hk_region_look_is_due, true);
    const bool any = own && hk_load_relaxed(&hk_heap_threads) != 0;
    hk_thread_t *thread = any ? hk_thread_enter_patiently() : NULL;
    if (thread != NULL) {
        if (hk_guarded())
            hk_freed_trim();
        hk_bounds_look(0);
        if (!hk_map_has_flat())
            hk_threads_give_up_flat_map();
        hk_thread_leave(thread);
    }
    errno = saved;
}
