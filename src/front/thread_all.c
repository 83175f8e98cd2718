/* Operations on the records of all threads. */
#include "backend/pagemap.h"
#include "front/crowd.h"
#include "front/magazine.h"
#include "front/observed.h"
#include "front/thread_own.h"

static void visit_all(hk_thread_visitor_t *visit, void *argument) {
    hk_lock(&hk_registry);
    if (hk_shared_record.shared)
        visit(&hk_shared_record, argument);
    for (hk_thread_t *thread = hk_threads_all; thread != NULL; thread = thread->all_next)
        visit(thread, argument);
    hk_unlock(&hk_registry);
}

bool hk_threads_visit(hk_thread_visitor_t *visit, void *argument) {
    hk_thread_t *own = hk_thread_enter_patiently();
    if (own == NULL)
        return false;
    visit_all(visit, argument);
    hk_thread_leave(own);
    return true;
}

static void forget_flat(hk_thread_t *thread) {
    hk_store_relaxed(&thread->cache.mask, (uintptr_t)0);
    hk_store_relaxed(&thread->cache.mask_derived, (uintptr_t)0);
}

/* Records set up later find no flat map either: both happen under the registry lock. It waits for
 * that lock for a second at most: in a child that was made past the fork handlers (clone, _Fork)
 * its holder may not exist. */
void hk_threads_give_up_flat_map(void) {
    if (hk_fork_is_mine() || !hk_lock_patiently(&hk_registry, HK_MOST_TRIES))
        return; /* a later call does it */
    if (hk_map_has_flat()) {
        forget_flat(&hk_shared_record);
        for (hk_thread_t *thread = hk_threads_all; thread != NULL; thread = thread->all_next)
            forget_flat(thread);
        hk_map_give_up_flat();
    }
    hk_unlock(&hk_registry);
}

static void add_held(hk_thread_t *thread, void *blocks) {
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++) {
        ((size_t *)blocks)[cls] += hk_magazine_count(thread, cls);
        ((size_t *)blocks)[cls] += hk_observed_count(thread, cls);
        hk_quarantine_t *quarantine = hk_load_acquire(&thread->quarantine);
        if (quarantine != NULL)
            ((size_t *)blocks)[cls] += hk_quarantine_count(quarantine, cls);
    }
}

void hk_threads_held(size_t blocks[HK_CLASS_COUNT]) {
    memset(blocks, 0, HK_CLASS_COUNT * sizeof *blocks);
    visit_all(add_held, blocks);
    hk_crowds_add_held(blocks);
}
