#include "backend/advise.h"

#include <errno.h>

#include "stats/counters.h"

enum { REFUSALS_BEFORE_GIVING_UP = 64 };

static atomic_uint refusals; /* atomic: any thread; in a row, other than for want of memory */

bool hk_advice_is_disabled(void) { return hk_load_relaxed(&refusals) >= REFUSALS_BEFORE_GIVING_UP; }

hk_os_advised_t hk_advise(const hk_os_range_t *ranges, size_t n, hk_advice_t advice) {
    if (hk_advice_is_disabled())
        return (hk_os_advised_t){0};
    hk_os_advised_t how = hk_os_advise(ranges, n, advice);
    hk_assert(how.done <= n && (how.error != 0) == (how.done < n));
    if (how.error == ENOMEM)
        hk_count(madvise_enomem, 1);
    else if (how.error != 0)
        hk_count(madvise_other, 1);
    /* huge pages may be unknown to a kernel that purges very well */
    if (advice == HK_PURGE || advice == HK_RESET) {
        if (how.error == 0)
            hk_store_relaxed(&refusals, 0u);
        else if (how.error != ENOMEM)
            hk_add_relaxed(&refusals, 1u);
    }
    return how;
}
