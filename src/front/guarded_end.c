/* Guarding at the end of a thread, at the end of the process, and in a fork's child. */
#include "front/guarded.h"

#include "front/magazine.h"
#include "front/thread_own.h"
#include "guard/block.h"
#include "guard/fence.h"
#include "policy/look.h"

/* Whether no other thread allocates, nor did when a fork made this process: what such a thread was
 * doing lies half done. */
static bool torn; /* written in a forked child before it has other threads */
static bool was_alone(void) { return hk_load_relaxed(&hk_purger_on_foot) && !torn; }

static void let_others_in(void) {
    hk_unlock(&hk_look_lock);
    hk_unlock(&hk_registry);
    hk_unlock(&hk_shared_lock);
}

/* Keeps all other threads away from the heap, until they are let in; false: there are some. A
 * thread that has no record yet waits for the registry, one past its end for the shared record.
 * That lock is only tried, as a fork holds it while it waits for threads inside; the others are not
 * waited for for ever, as in a child that was made past the fork handlers the holder may not
 * exist. */
static bool keep_others_out(void) {
    enum { MOST_TRIES = 1000 };
    if (!was_alone() || !hk_lock_try(&hk_shared_lock))
        return false;
    const bool has_registry = hk_lock_patiently(&hk_registry, MOST_TRIES);
    /* the purger has no record, and would give back what is being checked */
    if (has_registry && was_alone() && hk_lock_patiently(&hk_look_lock, MOST_TRIES))
        return true;
    if (has_registry)
        hk_unlock(&hk_registry);
    hk_unlock(&hk_shared_lock);
    return false;
}

/* Checks the blocks in quarantine and gives them to the heap; as the process `ends` those in
 * magazines, too, and where it is `alone` the blocks beside each. */
static void flush(hk_thread_t *thread, bool ends, bool alone) {
    hk_quarantine_t *q = hk_quarantine_of(thread);
    void *p;
    if (q == NULL || hk_quarantine_is_busy(q)) /* for a handler that is short of memory, or trims */
        return;
    const uint64_t dice = hk_quarantine_close(q);
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++)
        while ((p = hk_quarantine_drain(q, cls)) != NULL ||
               (ends && (p = hk_magazine_take(thread, cls)) != NULL)) {
            hk_block_look(p, cls);
            if (alone)
                hk_block_look_beside(p, cls);
            hk_heap_give(&thread->heap, cls, &p, 1);
        }
    hk_quarantine_open(q, dice);
}

void hk_guarded_flush(hk_thread_t *thread) { flush(thread, false, false); }

/* A signal handler may have ended the thread at a block: the quarantine is whole even so. Blocks
 * that an earlier thread left, of classes that this one has not used, have been checked: where each
 * of many threads does a little they would be most of the work. */
size_t hk_guarded_end(hk_thread_t *thread) {
    hk_quarantine_t *q = hk_quarantine_of(thread);
    void *blocks[HK_QUARANTINE_MOST + HK_QUARANTINE_OUT];
    size_t bytes = 0;
    if (q == NULL)
        return 0;
    const uint64_t dice = hk_quarantine_close(q);
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++) {
        bytes += hk_quarantine_count(q, cls) * (size_t)hk_classes[cls].size;
        if ((q->used >> cls & 1) == 0)
            continue;
        const unsigned n = hk_quarantine_list(q, cls, blocks);
        for (unsigned i = 0; i < n; i++)
            hk_block_look(blocks[i], cls);
    }
    hk_quarantine_leave(q);
    hk_quarantine_open(q, dice != 0 ? dice : 1);
    return bytes;
}

void hk_guarded_finish(void) {
    enum { BLOCKS_IN_A_MS = 1 << 16 };
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread != NULL ? hk_thread_enter() : NULL;
    if (thread == NULL)
        return;
    const hk_quarantine_t *q = hk_quarantine_of(thread);
    const bool alone = (q == NULL || !hk_quarantine_is_busy(q)) && keep_others_out();
    flush(thread, true, alone);
    if (alone) {
        hk_block_look_at_all(BLOCKS_IN_A_MS);
        hk_fence_finish();
        let_others_in();
    }
    hk_thread_leave(thread);
}

void hk_guarded_others_left(void) {
    if (hk_guarded())
        hk_guard_forked();
    torn |= !hk_load_relaxed(&hk_purger_on_foot) || hk_purger_has_company();
}

void hk_guarded_forked(hk_thread_t *thread, bool own) {
    hk_quarantine_t *q = hk_quarantine_of(thread);
    if (q == NULL)
        return;
    q->stream = hk_guard_stream();
    if (!own || !hk_quarantine_is_busy(q))
        hk_quarantine_open(q, 1); /* the next block that is put draws a new number */
}
