#include "policy/look.h"

#include "backend/advise.h"
#include "backend/breath.h"
#include "backend/demand.h"
#include "backend/heap.h"
#include "backend/pack.h"
#include "backend/purge.h"
#include "backend/region.h"
#include "backend/superslab.h"
#include "base/counters.h"
#include "config/config.h"
#include "os/os.h"
#include "policy/purger.h"

/* Bytes of the region cache that go in one step. */
#define CACHED_AT_ONCE (2 * HK_UNIT)
/* Bytes that must be free beyond what the last pass tried in vain. */
#define LEAST_MORE HK_MIB
/* A class is sparse if so much is free in its slabs, and such a share of them. */
#define SPARSE_LEAST (256 * HK_KIB)
enum { SPARSE_SHARE = 5 };
/* Shares of what is in use that may be free: on foot, unless the pass is aged, the larger one. */
enum { SHARE = 16, SHARE_ON_FOOT = 4 };
enum { CACHED_MS = HK_HOSTILE ? 1 : 100 }; /* cached ranges are old later than pages of slabs */
enum { TAILS_MS = HK_HOSTILE ? 1 : 1000 }; /* and tails of large blocks where these stay */
enum { LOOKS_WITHOUT_CACHE = 64, MORE_SHARE = 32, MORE_SHARE_ON_FOOT = 2 };

hk_lock_t hk_look_lock = HK_LOCK_INIT(HK_RANK_LOOK);

/* lock: look. The pass under way. */
static struct pass {
    enum { NONE, LOOKS, PURGES } stage;
    hk_superslab_t *at;  /* superslab looked at last */
    hk_pool_free_t free; /* of the superslabs looked at */
    hk_pool_cursor_t cursor;
    void *pack;        /* pack purged last */
    bool packs;        /* there may be more packs to purge */
    bool tails;        /* marked tails may go */
    size_t tails_gone; /* bytes of marked tails that went */
    size_t most;       /* bytes still to give back */
    size_t cached;     /* of these, bytes of cached ranges at most */
    size_t purged;     /* bytes given back so far */
    size_t spared;     /* bytes that stay because the process has grown meanwhile */
    uint64_t touched;  /* counter of bytes brought in, when that was last looked at */
    bool given;        /* the demand has been told of the pass */
    bool aged, on_foot, tried, seen;
} pass;

static size_t stuck;         /* lock: look; free bytes that the last pass tried in vain */
static size_t stuck_likely;  /* lock: look; and what was likely of them (hk_pool_free_t) */
static atomic_size_t worth;  /* atomic: written under the lock; see hk_look_worth() */
static unsigned refused;     /* lock: look; looks to go without the region cache: it was refused */
static hk_credit_t credit;   /* lock: look; for old memory */
static size_t cached_before; /* lock: look; bytes in the region cache when it was last looked at */
static uint64_t cached_at;   /* lock: look; milliseconds; when that was */
static uint64_t tails_at; /* lock: look; milliseconds; when tails were marked; 0: they are to be */
static bool tails_wait;   /* lock: look; enough of them to give them back once they are old */
static size_t tails_left; /* lock: look; bytes of tails that the last pass left */

static size_t target(void) { return hk_option(lean_target_mb) * HK_MIB; }

size_t hk_look_in_use(void) { return hk_min(hk_region_live(), hk_purge_memory()); }

bool hk_look_is_small(void) { return hk_region_live() + hk_region_cached() <= target(); }

/* In a fork's child, whose demand begins anew. */
void hk_look_forked(void) {
    pass.given = false;
    hk_lock_forked(&hk_look_lock);
}

void hk_look_forget(void) {
    hk_lock(&hk_look_lock);
    hk_store_relaxed(&hk_heap_sparse, (uint64_t)0);
    hk_breath_forget();
    pass.given = false;
    hk_unlock(&hk_look_lock);
}

void hk_look_begin(bool aged, bool on_foot) {
    hk_assert(hk_lock_is_mine(&hk_look_lock));
    hk_heap_collect_all(false, hk_stash_look);
    pass = (struct pass){
        .stage = LOOKS, .cursor = pass.cursor, .seen = pass.seen, .aged = aged, .on_foot = on_foot};
    pass.free.marks = tails_at == 0 && (aged || !on_foot);
    pass.tails = tails_at != 0 && (aged || !on_foot) && hk_os_now_ms() - tails_at >= TAILS_MS;
}

/* Whether a pass could find so much more than the one before that it is worth it. Giving memory
 * back bit by bit, as it is freed, costs a call for each bit: on foot, where nothing tells that the
 * freeing is over, it is left to gather. */
static bool is_worth_it(size_t dirty, size_t cached, size_t in_use) {
    size_t more = hk_max(LEAST_MORE, in_use / MORE_SHARE);
    if (pass.on_foot)
        more = hk_max(hk_max(LEAST_MORE, target()), in_use / MORE_SHARE_ON_FOOT);
    stuck = hk_min(stuck, dirty);
    stuck_likely = hk_min(stuck_likely, pass.free.likely);
    return dirty >= stuck + hk_max(more, stuck / 4) || pass.free.likely >= stuck_likely + more ||
           cached + pass.free.slices >= (pass.on_foot ? more : 1);
}

/* How much of the region cache counts: all; in an aged pass, what was there at a look CACHED_MS ago
 * or earlier too. */
static size_t old_of_cached(size_t cached, uint64_t now) {
    const size_t before = cached_before;
    if (!pass.aged || now - cached_at < CACHED_MS)
        return pass.aged ? 0 : cached;
    cached_before = cached;
    cached_at = now;
    return hk_min(cached, before);
}

/* Sparse classes: so much is free in their slabs that it is worth the time to gather their blocks
 * in fewer slabs. None where several threads allocate: what is free lies in slabs that they do not
 * share, and nothing is gained. */
static void find_sparse(void) {
    uint64_t sparse = 0;
    for (unsigned cls = 1; cls < HK_CLASS_COUNT && hk_load_relaxed(&hk_purger_on_foot); cls++) {
        const size_t free = pass.free.of_class[cls];
        if (free >= SPARSE_LEAST && free >= hk_pool_carved(cls) / SPARSE_SHARE)
            sparse |= (uint64_t)1 << cls;
    }
    hk_store_relaxed(&hk_heap_sparse, sparse);
}

/* Whether to wait until the marked tails are old: not for those that the last pass left, which may
 * stay so for ever, nor if with them no more is free than may be. */
static bool tails_are_many(size_t dirty, size_t allowed) {
    const size_t tails = pass.free.tails;
    tails_left = hk_min(tails_left, tails);
    return tails >= tails_left + LEAST_MORE && dirty + tails > allowed + LEAST_MORE;
}

static void end_with_tails(void) {
    tails_at = 0; /* the next look marks anew: by now there may be more of them */
    tails_left = hk_minus(pass.free.tails, pass.tails_gone);
}

/* All superslabs have been looked at. True: the pass goes on, and gives back pass.most bytes. */
static bool decide(void) {
    find_sparse();
    if (pass.tails) {
        pass.free.dirty += pass.free.tails;
        pass.free.likely += pass.free.tails;
    }
    if (pass.free.marks)
        tails_at = hk_os_now_ms();
    const hk_pack_stats_t packs = hk_pack_stats();
    const size_t cached = refused == 0 ? hk_region_cached() : 0;
    const size_t dirty = cached + pass.free.dirty + packs.dirty;
    const size_t in_use = hk_minus(hk_region_live(), pass.free.clean + pass.free.dirty +
                                                         packs.packs * HK_UNIT - packs.bytes);
    /* A process that goes on as it does takes again in one place what it frees in another. So on
     * foot only a process that has become much smaller gives anything back, but for memory that it
     * has not used again for long, as far as that stays away. */
    const bool for_old = hk_look_is_for_old(), only_much = pass.on_foot && !pass.aged;
    const size_t always = target() + in_use / (only_much ? SHARE_ON_FOOT : SHARE);
    const uint64_t now = hk_os_now_ms();
    const size_t allowed = hk_breath_allows(always);
    hk_purge_found(in_use + dirty);
    refused -= refused != 0;
    const bool ripe = pass.seen; /* what the pass before saw is old enough now */
    const size_t old = old_of_cached(cached, now);
    pass.seen = false;
    const size_t slack = only_much ? in_use : 0;
    const size_t short_of = hk_minus(allowed + slack, dirty);
    if (only_much) /* a freed byte is free, and in use no more: it counts twice */
        hk_store_relaxed(&worth, short_of / 2);
    pass.most = hk_minus(dirty, allowed);
    tails_wait = pass.free.marks ? tails_are_many(dirty, allowed) : tails_wait && !pass.tails;
    if (for_old)
        pass.most =
            hk_min(pass.most, hk_credit_allows(&credit, hk_load_relaxed(&hk_pool_retaken), now));
    const bool worth_it = for_old || ripe || is_worth_it(dirty, cached, in_use);
    if (short_of != 0 || pass.most == 0 || !worth_it || hk_advice_is_disabled()) {
        pass.stage = NONE;
        if (pass.tails)
            end_with_tails();
        return false;
    }
    if (!for_old) {
        stuck = dirty;
        stuck_likely = pass.free.likely;
    }
    pass.stage = PURGES;
    pass.touched = hk_counted_ever(touched);
    if (!for_old) /* else it goes on where its credit ended, or retaken memory would use it up */
        pass.cursor = (hk_pool_cursor_t){0};
    pass.tried = pass.cursor.superslab == NULL;
    pass.cached = old;
    pass.packs = packs.dirty != 0;
    pass.seen = old < cached;
    return true;
}

static bool purge(uint64_t mode) {
    const hk_advice_t how = mode == HK_DECOMMIT_FREE ? HK_RESET : HK_PURGE;
    size_t bytes;
    if (pass.cached != 0) {
        bytes = hk_purge_cached(hk_min(hk_min(pass.cached, CACHED_AT_ONCE), pass.most));
        hk_credit_used(&credit, 2 * bytes); /* as if taken again, in a new mapping */
        pass.cached = bytes == 0 ? 0 : hk_minus(pass.cached, bytes);
        refused = bytes == 0 && hk_region_cached() != 0 ? LOOKS_WITHOUT_CACHE : 0;
    } else if (pass.packs) {
        pass.packs = hk_purge_pack(&pass.pack, how, pass.aged, &pass.seen, &bytes);
    } else {
        if (!hk_pool_next(&pass.cursor)) {
            if (pass.tails)
                end_with_tails();
            return false;
        }
        bytes = hk_purge_superslab(&pass.cursor, how, pass.aged, &pass.seen);
        const size_t tails = pass.tails ? hk_purge_tails(&pass.cursor, how, true) : 0;
        pass.tails_gone += tails;
        bytes += tails;
    }
    pass.purged += bytes;
    pass.most = hk_minus(pass.most, bytes);
    if (bytes != 0 && !hk_look_is_for_old()) {
        /* the pass is one round of the process, whatever that brings in meanwhile: only its first
         * bytes begin a round */
        hk_breath_given(bytes, pass.given);
        pass.given = true;
    }
    return pass.most != 0;
}

/* On foot a pass waits for the next free, and by then the process may have grown: it needs as much
 * of what was to go. */
static void make_up_for_growth(void) {
    const uint64_t now = hk_counted_ever(touched);
    if (!pass.on_foot || pass.aged)
        return;
    const size_t spared = (size_t)hk_min(now - pass.touched, pass.most);
    pass.most -= spared;
    pass.spared += spared;
    pass.touched = now;
}

static void end(void) {
    pass.stage = NONE;
    hk_pool_release_empty();
    cached_before = hk_region_cached();
    hk_store_relaxed(&worth, (size_t)0);
    stuck = hk_minus(stuck, pass.purged + pass.spared);
    stuck_likely = hk_minus(stuck_likely, pass.purged + pass.spared);
    if (pass.purged != 0)
        hk_count(purge_runs, 1);
}

size_t hk_look_worth(void) { return hk_load_relaxed(&worth); }
bool hk_look_is_under_way(void) { return pass.stage != NONE; }
bool hk_look_is_for_old(void) { return pass.on_foot && pass.aged; }
bool hk_look_was_in_vain(void) { return pass.tried && !hk_look_had_effect(); }

bool hk_look_step(uint64_t mode) {
    hk_assert(hk_lock_is_mine(&hk_look_lock) && hk_lock_may_take(HK_RANK_PURGE));
    if (mode == HK_DECOMMIT_OFF) /* it may have changed */
        pass.stage = NONE;
    if (pass.stage == NONE)
        return false; /* another thread may have ended the pass */
    if (pass.stage == LOOKS)
        return hk_pool_add_free(&pass.at, &pass.free) || decide();
    make_up_for_growth();
    if (pass.most != 0 && purge(mode))
        return true;
    end();
    return false;
}

bool hk_look_had_effect(void) {
    return pass.purged != 0 || (pass.aged && pass.seen) || (!pass.on_foot && tails_wait);
}

bool hk_look_breathes(void) {
    hk_assert(hk_lock_is_mine(&hk_look_lock));
    return hk_breath_now() >= LEAST_MORE;
}
