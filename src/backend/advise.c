#include "backend/advise.h"

#include <errno.h>

#include "base/counters.h"

enum { REFUSALS_BEFORE_GIVING_UP = 64 };

static atomic_uint refusals; /* atomic: any thread; in a row, not counting ENOMEM */

bool hk_advice_is_disabled(void) { return hk_load_relaxed(&refusals) >= REFUSALS_BEFORE_GIVING_UP; }

void hk_advice_try_again(void) {
    if (hk_advice_is_disabled())
        hk_store_relaxed(&refusals, (unsigned)REFUSALS_BEFORE_GIVING_UP - 1);
}

void hk_advice_forked(void) { hk_store_relaxed(&refusals, 0u); }

HK_INLINE int ask(void *p, size_t bytes, hk_advice_t advice) {
    const int error = hk_os_advise(p, bytes, advice);
    if (error == ENOMEM)
        hk_count(madvise_enomem, 1);
    else if (error != 0)
        hk_count(madvise_other, 1);
    return error;
}

/* A system that keeps what it was told to drop has refused. */
static bool keeps(hk_advice_t advice) {
    const bool kept = advice == HK_PURGE && !hk_os_purges();
    if (HK_UNLIKELY(kept))
        hk_count(madvise_other, 1);
    return kept;
}

bool hk_advise_in_use(void *p, size_t bytes, hk_advice_t advice) {
    return ask(p, bytes, advice) == 0 && !keeps(advice);
}

/* Notes the answer to a purge; true: the memory has gone. Not a part of hk_advise(), which processes
 * call that purge nothing. */
static HK_NOINLINE bool is_gone(int error, hk_advice_t advice) {
    if (error == 0 && keeps(advice))
        error = EINVAL;
    if (error == 0)
        hk_store_relaxed(&refusals, 0u);
    else if (error != ENOMEM)
        hk_add_relaxed(&refusals, 1u);
    return error == 0;
}

/* Refused advice on huge pages does not count: a kernel without them may purge very well. */
bool hk_advise(void *p, size_t bytes, hk_advice_t advice) {
    if (hk_advice_is_disabled())
        return false;
    const int error = ask(p, bytes, advice);
    return advice == HK_PURGE || advice == HK_RESET ? is_gone(error, advice) : error == 0;
}
