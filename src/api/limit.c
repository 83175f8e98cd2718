/* The limit on memory: where it comes from, and what happens before it refuses an allocation. */
#include "backend/limit.h"

#include <errno.h>
#include <stdlib.h>

#include "api/api.h"
#include "api/stats.h"
#include "backend/meta.h"
#include "base/calls.h"
#include "base/report.h"
#include "config/config.h"
#include "front/boundary.h"
#include "front/thread.h"
#include "os/os.h"

/* const once published; never freed, because another thread may be about to call it. */
typedef struct {
    hak_limit_callback_t callback;
    void *context;
} handler_t;

static _Atomic(handler_t *) handler; /* atomic: any thread */

/* ---- the limit ---- */

/* If the cgroup's files cannot be read any more (no file descriptor left, a sandbox), the last
 * limit read holds. */
static uint64_t limit_of_cgroup(int *unread) {
    static _Atomic uint64_t last; /* atomic: any thread */
    const uint64_t limit = hk_os_memory_limit(HK_OS_MEMBERSHIP, HK_OS_CGROUPS, unread);
    if (limit != 0 || *unread == 0)
        hk_store_relaxed(&last, limit);
    return hk_load_relaxed(&last);
}

static size_t share_of_cgroup(uint64_t percent, bool says) {
    if (percent == 0)
        return 0;
    int unread;
    const uint64_t limit = limit_of_cgroup(&unread);
    if (limit == 0 && says && unread != 0)
        hk_say("hakmem: warning: HAKMEM_LIMIT_PERCENT=%lu has no effect: "
               "what the cgroups of this process say of its memory cannot be read: %s",
               percent, hk_error_text(unread));
    else if (limit == 0 && says)
        hk_say("hakmem: note: HAKMEM_LIMIT_PERCENT=%lu has no effect: "
               "no cgroup limits the memory of this process",
               percent);
    return (size_t)(limit / 100 * percent);
}

static hk_refusal_t hear;

static bool is_heard(void) {
    return hk_option(on_limit) != HK_ON_LIMIT_NULL || hk_load_seq(&handler) != NULL;
}

/* Two threads may race here, so it is repeated until what was stored agrees with what it depends
 * on. */
static void hear_or_not(void) {
    do
        hk_store_seq(&hk_refusal, is_heard() ? hear : NULL);
    while ((hk_load_seq(&hk_refusal) != NULL) != is_heard());
}

static size_t limit_now(bool says) {
    const size_t own = (size_t)hk_option(limit_mb) * HK_MIB;
    const size_t share = share_of_cgroup(hk_option(limit_percent), says);
    return own != 0 && share != 0 ? hk_min(own, share) : own + share;
}

void hk_limit_apply(bool starts) {
    static atomic_uint changes; /* atomic: later callers see earlier stores */
    size_t bytes = limit_now(starts);
    do {
        hk_limit_set(bytes);
        hk_add_seq(&changes, 1u);
        bytes = limit_now(false);
    } while (hk_limit() != bytes);
    hear_or_not();
}

HK_EXPORT int hak_limit_on_reached(hak_limit_callback_t callback, void *context) {
    /* entered: else a fork might find the metadata's lock taken */
    hk_thread_t *thread = hk_thread_enter_patiently();
    handler_t *made = callback != NULL && thread != NULL ? hk_meta_alloc(sizeof *made) : NULL;
    if (thread != NULL)
        hk_thread_leave(thread);
    if (callback != NULL && made == NULL) {
        errno = thread != NULL ? ENOMEM : EBUSY;
        return -1;
    }
    if (made != NULL)
        *made = (handler_t){callback, context};
    hk_store_seq(&handler, made);
    hear_or_not();
    return 0;
}

/* ---- an allocation that is about to be refused ---- */

/* Appends a line for each of the largest bands, the largest first. Zeroes their figures. */
static void put_who_holds_it(hk_line_t *line, hak_stats_t *stats) {
    enum { BIGGEST = 5 };
    for (unsigned i = 0; i < BIGGEST; i++) {
        hak_stats_band_t *most = stats->bands;
        for (hak_stats_band_t *band = most; band < stats->bands + HAK_STATS_BANDS; band++)
            if (band->allocated > most->allocated)
                most = band;
        if (most->allocated == 0)
            return;
        hk_line_put(line, "hakmem: limit: %s: %lu blocks, %lu bytes\n",
                    hk_band_names[most - stats->bands], most->blocks, most->allocated);
        most->allocated = 0;
    }
}

/* One write for all lines: several threads may reach the limit at once. */
static _Noreturn void end(size_t n) {
    hak_stats_t stats;
    hk_line_t line = {0};
    if (hk_stats_collect(&stats, false))
        put_who_holds_it(&line, &stats);
    hk_line_put(&line,
                "hakmem: fatal: memory limit: %lu bytes held of the %lu that HAKMEM_LIMIT_MB or "
                "HAKMEM_LIMIT_PERCENT allows, no room for a block of %lu",
                hk_held(), hk_limit(), n);
    hk_line_write(&line, hk_stderr());
    abort();
}

/* Whether the limit refused, not the system. A block may need one unit more than its size, or up to
 * two if it shares a unit. */
static bool is_beyond_limit(size_t n) {
    return hk_limit() != 0 && n + 2 * HK_UNIT > hk_minus(hk_limit(), hk_held());
}

static bool hear(size_t n, unsigned tries) {
    const handler_t *now = hk_load_acquire(&handler);
    if (now != NULL && tries == 0) {
        const int saved = errno;
        now->callback(n, now->context);
        errno = saved;
        return true;
    }
    if (hk_option(on_limit) == HK_ON_LIMIT_ABORT && is_beyond_limit(n))
        end(n);
    return false;
}
