#include "front/magazine.h"

#include <string.h>

#include "config/config.h"
#include "policy/purger.h"

enum { FIRST_CAPACITY = 16, CROWD_VISITS = 8, IDLE_VISITS = 64, PREFETCHED = 4 };

void *hk_unused_bin[1];

void hk_magazines_reset(hk_thread_t *thread) {
    for (unsigned kind = 0; kind < HK_KIND_COUNT; kind++) {
        hk_store_relaxed(&thread->cache.top[kind], hk_unused_bin);
        thread->cache.limit[kind] = hk_unused_bin;
    }
    memset(thread->magazines, 0, sizeof thread->magazines);
    thread->budget = hk_magazines_budget();
}

void hk_magazines_flush(hk_thread_t *thread) {
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++) {
        unsigned n = hk_magazine_count(thread, cls);
        if (n == 0)
            continue;
        void **slots = hk_magazine_slots(thread, cls);
        hk_heap_give(&thread->heap, cls, slots + 1, n);
        hk_purger_note((size_t)n * hk_classes[cls].size);
        hk_store_relaxed(&thread->cache.top[cls], slots);
    }
}

static void give_oldest(hk_thread_t *thread, unsigned cls, unsigned n) {
    void **slots = hk_magazine_slots(thread, cls);
    unsigned left = hk_magazine_count(thread, cls) - n;
    hk_heap_give(&thread->heap, cls, slots + 1, n);
    hk_purger_note((size_t)n * hk_classes[cls].size);
    memmove(slots + 1, slots + 1 + n, left * sizeof *slots);
    hk_store_relaxed(&thread->cache.top[cls], slots + left);
}

/* ---- how large ---- */

/* The block on top moves with its magazine where the slots for few do not do, or do again. */
static void set_capacity(hk_thread_t *thread, unsigned cls, unsigned capacity) {
    hk_magazine_t *mag = &thread->magazines[cls];
    if (capacity > HK_FEW && hk_thread_rest(thread) == NULL)
        capacity = HK_FEW;
    void **from = hk_magazine_slots(thread, cls);
    unsigned held = hk_magazine_count(thread, cls);
    if (mag->capacity == 0) {
        from[0] = NULL;
        mag->crowd = hk_threads_are_many();
        mag->refill = mag->crowd ? 1 : 4;
    }
    thread->budget += (size_t)mag->capacity * hk_classes[cls].size;
    thread->budget -= (size_t)capacity * hk_classes[cls].size;
    mag->capacity = capacity & 1023;
    void **to = hk_magazine_slots(thread, cls);
    if (to != from)
        memcpy(to, from, (held + 1) * sizeof *to);
    hk_store_relaxed(&thread->cache.top[cls], to + held);
    thread->cache.limit[cls] = to + capacity;
}

/* Halves the magazine with the most bytes among those not visited lately or, if need be, among all
 * the others; false where there is none. */
static bool make_room(hk_thread_t *thread, unsigned cls, bool need) {
    unsigned victim = 0;
    size_t most = 0;
    for (unsigned i = 1; i < hk_class_end(); i++) {
        const hk_magazine_t *mag = &thread->magazines[i];
        size_t bytes = (size_t)mag->capacity * hk_classes[i].size;
        bool idle = thread->visits - mag->visited > IDLE_VISITS;
        if (i == cls || bytes <= most || !(idle || need))
            continue;
        victim = i;
        most = bytes;
    }
    if (victim == 0)
        return false;
    unsigned capacity = thread->magazines[victim].capacity / 2u;
    unsigned held = hk_magazine_count(thread, victim);
    if (held > capacity)
        give_oldest(thread, victim, held - capacity);
    set_capacity(thread, victim, capacity);
    return true;
}

/* How many blocks more a magazine should have room for. The first few need no memory of their own;
 * where there is that already, from an earlier thread, they are left out. */
static unsigned growth(const hk_thread_t *thread, unsigned now) {
    if (now == 0 && (hk_load_relaxed(&thread->rest) == NULL || hk_threads_are_many()))
        return HK_FEW;
    return now <= HK_FEW ? FIRST_CAPACITY - now : now;
}

/* Each visit to the boundary doubles a magazine, up to the class's most and as far as the thread's
 * budget of bytes goes, to which idle magazines give way: so magazines are large only where there
 * is traffic. A magazine that has nothing yet takes from any other. */
static void enlarge(hk_thread_t *thread, unsigned cls) {
    const hk_class_t *c = &hk_classes[cls];
    const unsigned now = thread->magazines[cls].capacity;
    unsigned more = growth(thread, now);
    if (HK_UNLIKELY(hk_option(tcache_adaptive) == 0))
        more = c->magazine;
    more = (unsigned)hk_min(more, (size_t)(c->magazine - now));
    if (HK_UNLIKELY((size_t)more * c->size > thread->budget)) {
        make_room(thread, cls, false);
        while (now == 0 && thread->budget < c->size && make_room(thread, cls, true))
            continue;
        more = (unsigned)hk_min(more, thread->budget / c->size);
    }
    set_capacity(thread, cls, now + more);
}

unsigned hk_magazine_more(unsigned cls, unsigned now, unsigned wanted, size_t budget) {
    const hk_class_t *c = &hk_classes[cls];
    wanted = (unsigned)hk_min(wanted, c->magazine);
    return wanted > now ? (unsigned)hk_min(wanted - now, budget / c->size) : 0;
}

void hk_magazine_reserve(hk_thread_t *thread, unsigned cls, unsigned capacity) {
    const unsigned now = thread->magazines[cls].capacity;
    unsigned more = hk_magazine_more(cls, now, capacity, thread->budget);
    if (more != 0)
        set_capacity(thread, cls, now + more);
}

void hk_magazine_fill(hk_thread_t *thread, unsigned cls, unsigned blocks) {
    hk_magazine_reserve(thread, cls, blocks);
    void **slots = hk_magazine_slots(thread, cls);
    blocks = (unsigned)hk_min(blocks, thread->magazines[cls].capacity);
    for (unsigned held = hk_magazine_count(thread, cls), got; held < blocks; held += got) {
        got = hk_heap_take(&thread->heap, cls, slots + 1 + held, blocks - held);
        if (got == 0)
            break;
        hk_store_relaxed(&thread->cache.top[cls], slots + held + got);
    }
}

/* One of many threads takes its first few blocks one by one from slabs that it shares and has room
 * for few of them, since pages of its own for each class are more than all else it has. So many
 * visits end that. */
static hk_magazine_t *visit(hk_thread_t *thread, unsigned cls) {
    hk_magazine_t *mag = &thread->magazines[cls];
    mag->visited = ++thread->visits;
    if (mag->crowd)
        mag->crowd = ++mag->refill <= CROWD_VISITS;
    if (mag->capacity < hk_classes[cls].magazine && !(mag->crowd && mag->capacity != 0))
        enlarge(thread, cls);
    return mag;
}

/* ---- in and out ---- */

/* Misses in a row ask for more each time. */
unsigned hk_magazine_refill(hk_thread_t *thread, unsigned cls) {
    hk_magazine_t *mag = visit(thread, cls);
    void **slots = hk_magazine_slots(thread, cls);
    unsigned half = (mag->capacity + 1u) / 2, got;
    unsigned want = mag->was_flush ? half : (unsigned)hk_min(mag->refill, mag->capacity);
    mag->was_flush = false;
    if (HK_UNLIKELY(mag->crowd)) {
        got = hk_heap_take(&hk_crowd, cls, slots + 1, 1);
    } else {
        mag->refill = hk_min(2 * want, hk_classes[cls].magazine) & 1023;
        got = hk_heap_take(&thread->heap, cls, slots + 1, want);
    }
    hk_store_relaxed(&thread->cache.top[cls], slots + got);
    if (HK_UNLIKELY(hk_option(tcache_prefetch) != 0))
        for (unsigned i = 0; i < PREFETCHED && i < got; i++)
            __builtin_prefetch(slots[got - i], 1);
    return got;
}

/* The older half goes back, or all of it where one flush follows another. Where the visit has
 * enlarged the magazine there is room already. */
unsigned hk_magazine_flush(hk_thread_t *thread, unsigned cls) {
    hk_magazine_t *mag = visit(thread, cls);
    unsigned held = hk_magazine_count(thread, cls);
    if (held < mag->capacity)
        return 0;
    unsigned n = mag->was_flush ? held : (held + 1u) / 2;
    give_oldest(thread, cls, n);
    mag->was_flush = true;
    return n;
}
