#include "policy/purger.h"

#include <errno.h>
#include <unistd.h>

#include "backend/advise.h"
#include "backend/heap.h"
#include "backend/purge.h"
#include "backend/region.h"
#include "base/report.h"
#include "base/worker.h"
#include "config/config.h"
#include "os/os.h"
#include "stats/counters.h"

/* So many bytes freed are worth a look; so many superslabs are purged between two short rests, so
 * that others get at the system's lock of the address space; so many looks without any effect send
 * it to sleep. */
enum { NOTED_BYTES = 1 << 20, PURGED_AT_ONCE = 32, REST_MS = 2, IDLE_LOOKS = 2 };
enum {
    INTERVAL_MS = HK_HOSTILE ? 1 : 1000,
    SHORT_INTERVAL_MS = HK_HOSTILE ? 1 : 100,
};

atomic_bool hk_purger_may_start;
atomic_bool hk_purger_runs;

static _Atomic uint32_t noted; /* atomic: rises when something happens; the purger sleeps on it */
static atomic_bool stopping;   /* atomic: it is to end */
static atomic_bool asleep;     /* atomic: until woken, not only for an interval */
static atomic_size_t unnoted;  /* atomic: bytes freed that have not raised `noted` yet */

/* ---- what is to be done ---- */

static uint64_t decommit(void) {
    hk_assert(hk_option(lean_decommit) <= HK_DECOMMIT_DONTNEED);
    return hk_option(lean) != 0 ? hk_option(lean_decommit) : HK_DECOMMIT_OFF;
}

static size_t target(void) { return hk_option(lean_target_mb) * HK_MIB; }

/* No more in use than the target, so that there is never more to give back. */
static bool is_small(void) { return hk_region_live() + hk_region_cached() <= target(); }

static bool may_start(void) {
    return decommit() != HK_DECOMMIT_OFF && !hk_load_seq(&hk_purger_runs);
}

/* Once more where it has changed meanwhile: two threads may do this at the same time. */
static void rearm(void) {
    do
        hk_store_seq(&hk_purger_may_start, may_start());
    while (hk_load_seq(&hk_purger_may_start) != may_start());
}

void hk_policy_apply(void) {
    rearm();
    if (!hk_load_seq(&hk_purger_runs))
        return;
    hk_add_seq(&noted, 1u);
    hk_os_wake(&noted);
}

void hk_purger_stop(void) {
    if (!hk_load_seq(&hk_purger_runs))
        return;
    hk_store_seq(&stopping, true);
    hk_add_seq(&noted, 1u);
    hk_os_wake(&noted);
}

void hk_purger_note_slow(size_t bytes) {
    if (hk_add_relaxed(&unnoted, bytes) + bytes < NOTED_BYTES)
        return;
    hk_store_relaxed(&unnoted, (size_t)0);
    hk_add_seq(&noted, 1u);
    if (hk_load_seq(&asleep))
        hk_os_wake(&noted);
}

/* Held while memory is given back: a fork then waits, and its child finds nothing half done. */
static hk_lock_t at_work = HK_LOCK_INIT(HK_RANK_LOOK);

void hk_purger_hold(void) { hk_lock(&at_work); }
void hk_purger_release(void) {
    hk_assert(hk_lock_is_mine(&at_work)); /* hk_purger_hold() was before */
    hk_unlock(&at_work);
}

static void rest(unsigned ms) { hk_os_wait(&noted, hk_load_relaxed(&noted), ms); }

/* ---- a look ---- */

static size_t dirty_bytes(void) { return hk_region_cached() + hk_pool_dirty_bytes(); }

/* One look; false if it had no effect and the next one, unless something is freed, will have
 * none. */
static bool look_locked(uint64_t mode) {
    static size_t cached_before; /* bytes in the region cache at the last look */
    hk_assert(hk_lock_is_mine(&at_work) && mode != HK_DECOMMIT_OFF);
    hk_assert(hk_load_relaxed(&hk_purger_runs)); /* in a fork's child nobody comes here */
    if (hk_advice_is_disabled())
        return false;
    hk_heap_collect_all();
    const size_t dirty = dirty_bytes(), most = dirty - hk_min(dirty, target());
    const size_t cached = hk_region_cached();
    const bool aged = mode == HK_DECOMMIT_FREE;
    size_t purged = 0;
    bool seen = false;
    if (most != 0) {
        size_t unused = aged ? hk_min(cached, cached_before) : cached;
        purged = hk_purge_cached(hk_min(most, unused));
        seen = purged < cached;
        hk_assert(hk_lock_may_take(HK_RANK_PURGE));
        unsigned count = 0;
        for (hk_pool_cursor_t cursor = {0}; purged < most && hk_pool_next(&cursor);) {
            size_t bytes = hk_purge_superslab(&cursor, aged ? HK_RESET : HK_PURGE, aged, &seen);
            purged += bytes;
            hk_unlock(&at_work);
            hk_assert(hk_lock_may_take(HK_RANK_CONFIG)); /* a fork need not wait while it rests */
            if (bytes != 0 && ++count % PURGED_AT_ONCE == 0)
                rest(REST_MS);
            hk_lock(&at_work);
        }
        hk_pool_release_empty();
    }
    cached_before = hk_region_cached();
    if (purged != 0)
        hk_count(purge_runs, 1);
    return purged != 0 || (aged && seen);
}

static bool look(uint64_t mode) {
    hk_lock(&at_work);
    bool again = look_locked(mode);
    hk_unlock(&at_work);
    return again;
}

/* ---- the thread ---- */

/* Sleeps until something is freed, unless that has happened since `noted` was `before`. */
static void sleep_since(uint32_t before) {
    hk_assert(!hk_load_relaxed(&asleep) && hk_lock_may_take(HK_RANK_CONFIG));
    hk_store_seq(&asleep, true);
    if (hk_load_seq(&noted) == before)
        hk_os_wait(&noted, before, 0);
    hk_store_seq(&asleep, false);
}

static void *purger(void *unused) {
    unsigned idle_looks = 0;
    for (uint64_t mode; (mode = decommit()) != HK_DECOMMIT_OFF && !hk_load_seq(&stopping);) {
        rest(mode == HK_DECOMMIT_DONTNEED && idle_looks == 0 ? SHORT_INTERVAL_MS : INTERVAL_MS);
        const uint32_t before = hk_load_seq(&noted);
        idle_looks = look(mode) ? 0 : idle_looks + 1;
        if (idle_looks < IDLE_LOOKS)
            continue;
        if (is_small())
            break;
        sleep_since(before);
        idle_looks = 0;
    }
    hk_assert(hk_load_relaxed(&hk_purger_runs)); /* so that there was no second one */
    hk_store_seq(&stopping, false);
    hk_store_seq(&hk_purger_runs, false);
    rearm();
    return unused;
}

HK_COLD void hk_purger_start_slow(void) {
    if (is_small() || hk_exchange_seq(&hk_purger_runs, true))
        return;
    hk_assert(hk_lock_may_take(HK_RANK_CONFIG)); /* to start a thread is to allocate */
    hk_store_seq(&hk_purger_may_start, false);
    int saved = errno;
    if (hk_worker_start(purger) != 0) {
        hk_line_t line = {0};
        hk_line_str(&line, "hakmem: warning: no thread can be started to give free memory back; "
                           "only malloc_trim() "
                           "does");
        hk_line_write(&line, STDERR_FILENO);
        hk_store_seq(&hk_purger_runs, false);
    }
    errno = saved;
}

void hk_purger_forked(void) {
    hk_purger_release();
    hk_lock_forked(&at_work);
    hk_store_seq(&stopping, false);
    hk_store_seq(&hk_purger_runs, false);
    hk_store_seq(&asleep, false);
    rearm();
}
