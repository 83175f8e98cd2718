#include "profile/table.h"

#include "backend/own.h"
#include "base/lock.h"
#include "base/worker.h"
#include "os/os.h"
#include "os/probe.h"

enum { FIRST_SLOTS = HK_HOSTILE ? 8 : 1024, MOST_SLOTS = 1 << 26 };
enum { BUCKETS = HK_HOSTILE ? 4 : 1 << 14, MOST_STACKS = 1 << 18, ROOM = 1 << 18 };

typedef hk_profile_stack_t stack_t;

typedef hk_profile_block_t sample_t;

/* Open addressing: a block lies at or behind its home, with no free slot between. */
typedef struct {
    size_t mask;
    sample_t slots[];
} blocks_t;

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_PROFILE);
static blocks_t *blocks;            /* lock: profile; one word: no fork finds half of it */
static size_t used;                 /* lock: profile; slots */
static _Atomic(stack_t *) *buckets; /* lock: profile */
static char *room;                  /* lock: profile; memory for stacks */
static size_t room_left;            /* lock: profile */
static unsigned stacks;             /* lock: profile; number of them */
static _Atomic(stack_t *) newest;   /* atomic: written under the lock */
static atomic_bool stale;           /* atomic: the contents are those of a fork's parent */
static atomic_bool in_vain;         /* atomic: a thread has given up waiting for the lock */

HK_PROBE_COUNTER(alloc);
HK_PROBE_COUNTER(free);
_Atomic uint64_t hk_profile_in_use, hk_profile_allocated, hk_profile_lost;
_Atomic(_Atomic uint8_t *) hk_profile_likes;

/* ---- sums ---- */

static void add(_Atomic uint64_t *sum, uint64_t n) {
    hk_store_relaxed(sum, hk_load_relaxed(sum) + n);
}

/* The bytes that the sample stands for. */
static uint64_t bytes_for(const sample_t *s) { return (uint64_t)((double)s->n / s->chance + 0.5); }

static void sum_up(hk_profile_sums_t *sums, _Atomic uint64_t *process, const sample_t *s,
                   bool more) {
    const uint64_t sign = more ? 1 : UINT64_MAX;
    const uint64_t all = bytes_for(s);
    add(&sums->objects, sign);
    add(&sums->bytes, sign * s->n);
    add(&sums->all_objects, sign * (uint64_t)(HK_PROFILE_OBJECT / s->chance + 0.5));
    add(&sums->all_bytes, sign * all);
    add(process, sign * all);
}

static void zero(hk_profile_sums_t *sums) {
    hk_store_relaxed(&sums->objects, (uint64_t)0);
    hk_store_relaxed(&sums->bytes, (uint64_t)0);
    hk_store_relaxed(&sums->all_objects, (uint64_t)0);
    hk_store_relaxed(&sums->all_bytes, (uint64_t)0);
}

static void clear_locked(void) {
    for (stack_t *s = hk_load_relaxed(&newest); s != NULL; s = s->before) {
        zero(&s->in_use);
        zero(&s->allocated);
        zero(&s->unreached);
    }
    if (blocks != NULL)
        hk_zero(blocks->slots, (blocks->mask + 1) * sizeof(sample_t));
    for (unsigned i = 0; used != 0 && i < HK_PROFILE_LIKES; i++)
        hk_store_relaxed(&hk_load_relaxed(&hk_profile_likes)[i], (uint8_t)0);
    used = 0;
    hk_store_relaxed(&hk_profile_in_use, (uint64_t)0);
    hk_store_relaxed(&hk_profile_allocated, (uint64_t)0);
    hk_store_relaxed(&hk_profile_lost, (uint64_t)0);
    hk_store_relaxed(&stale, false);
}

/* Takes the lock. Without `waits` this thread itself, or a thread that is gone, may hold it: tries
 * for some 50 ms, and after a failure only once each time until it succeeds. In a fork's child it
 * then clears what the parent knew. */
static bool enter(bool waits) {
    enum { MOST_TRIES = 1000 };
    if (waits) {
        hk_lock(&lock);
    } else {
        const bool has = hk_lock_patiently(&lock, hk_load_relaxed(&in_vain) ? 1 : MOST_TRIES);
        hk_store_relaxed(&in_vain, !has);
        if (!has)
            return false;
    }
    if (hk_load_relaxed(&stale))
        clear_locked();
    return true;
}

void hk_profile_clear(void) {
    hk_lock(&lock);
    clear_locked();
    hk_unlock(&lock);
}

/* The thread that held the lock is gone and has left its work half done, maybe the last sample of a
 * profile that is off by now. Only marks the tables as stale: most children just exec and shall not
 * touch them. */
void hk_profile_forked(void) {
    if (hk_load_relaxed(&newest) == NULL && !hk_lock_is_taken(&lock))
        return; /* no sample was ever taken */
    lock = (hk_lock_t)HK_LOCK_INIT(HK_RANK_PROFILE);
    room_left = 0;
    hk_store_relaxed(&in_vain, false);
    hk_store_relaxed(&stale, true);
}

/* Zeroed memory of its own. The metadata has a lock, which a fork must find free and only a thread
 * inside the boundary may take. */
static void *map(size_t bytes) {
    const size_t page = hk_os_page_size();
    bytes = hk_align_up(bytes, page);
    void *p = hk_os_map(bytes, page);
    hk_own_add(p, bytes);
    return p;
}

static size_t bytes_of(size_t slots) { return sizeof(blocks_t) + slots * sizeof(sample_t); }

/* ---- stacks ---- */

stack_t *hk_profile_stacks(void) {
    if (hk_load_relaxed(&stale)) {
        const uint64_t before = hk_signals_block(HK_SIGNALS_FROM_OUTSIDE); /* a handler may wait */
        const bool entered = enter(false);
        if (entered)
            hk_unlock(&lock);
        hk_signals_block(before);
        if (!entered)
            return NULL;
    }
    return hk_load_acquire(&newest);
}

/* Published in this order, so a fork's child may find it in the list but not in its bucket, never
 * the reverse. */
static stack_t *new_stack_locked(uint32_t hash, void *const *frames, unsigned count) {
    const size_t bytes = sizeof(stack_t) + count * sizeof(void *);
    if (stacks < MOST_STACKS && bytes > room_left) {
        room = map(ROOM);
        room_left = room != NULL ? ROOM : 0;
    }
    if (stacks == MOST_STACKS || bytes > room_left)
        return NULL;
    room_left -= bytes;
    stacks++;
    stack_t *s = (stack_t *)(void *)(room + room_left);
    s->before = hk_load_relaxed(&newest);
    s->same_bucket = hk_load_relaxed(&buckets[hash % BUCKETS]);
    s->hash = hash;
    s->count = count;
    memcpy(s->frames, frames, count * sizeof *frames);
    hk_store_release(&newest, s);
    hk_store_release(&buckets[hash % BUCKETS], s);
    return s;
}

static stack_t *stack_locked(void *const *frames, unsigned count) {
    uint64_t hash = count;
    if (buckets == NULL && (buckets = map(BUCKETS * sizeof *buckets)) == NULL)
        return NULL;
    for (unsigned i = 0; i < count; i++)
        hash = (hash ^ (uintptr_t)frames[i]) * 0x9E3779B97F4A7C15u;
    hash >>= 32;
    for (stack_t *s = hk_load_relaxed(&buckets[hash % BUCKETS]); s != NULL; s = s->same_bucket)
        if (s->hash == hash && s->count == count &&
            memcmp(s->frames, frames, count * sizeof *frames) == 0)
            return s;
    return new_stack_locked((uint32_t)hash, frames, count);
}

/* ---- blocks ---- */

static size_t home_of(const blocks_t *t, uintptr_t p) {
    return (p >> 3) * 0x9E3779B97F4A7C15u >> 32 & t->mask;
}

/* The block's slot, or the free one where it belongs. */
static sample_t *slot_of(blocks_t *t, uintptr_t p) {
    size_t i = home_of(t, p);
    while (t->slots[i].p != 0 && t->slots[i].p != p)
        i = (i + 1) & t->mask;
    return &t->slots[i];
}

/* Doubles the table if half of it is used. False: no room for another block. */
static bool has_room_locked(void) {
    blocks_t *before = blocks;
    const size_t slots = before != NULL ? before->mask + 1 : 0;
    if (used < slots / 2)
        return true;
    if (hk_load_relaxed(&hk_profile_likes) == NULL)
        hk_store_release(&hk_profile_likes, map(HK_PROFILE_LIKES));
    if (hk_load_relaxed(&hk_profile_likes) == NULL)
        return false;
    const size_t more = slots != 0 ? 2 * slots : FIRST_SLOTS;
    blocks_t *grown = more <= MOST_SLOTS ? map(bytes_of(more)) : NULL;
    if (grown == NULL)
        return used + slots / 8 < slots;
    grown->mask = more - 1;
    for (size_t i = 0; i < slots; i++)
        if (before->slots[i].p != 0)
            *slot_of(grown, before->slots[i].p) = before->slots[i];
    blocks = grown;
    if (before != NULL) {
        hk_own_drop(before);
        hk_os_unmap(before, hk_align_up(bytes_of(slots), hk_os_page_size()));
    }
    return true;
}

/* Counts one block more, or one less. */
static void like_locked(const void *p, int more) {
    _Atomic uint8_t *like = &hk_load_relaxed(&hk_profile_likes)[hk_profile_like(p)];
    if (hk_load_relaxed(like) != UINT8_MAX)
        hk_store_relaxed(like, (uint8_t)(hk_load_relaxed(like) + more));
}

/* Empties the slot: blocks behind it move up if that is nearer to their home. */
static void empty_locked(sample_t *slot) {
    blocks_t *t = blocks;
    size_t hole = (size_t)(slot - t->slots);
    like_locked((const void *)slot->p, -1);
    for (size_t i = (hole + 1) & t->mask; t->slots[i].p != 0; i = (i + 1) & t->mask) {
        const size_t far = (i - home_of(t, t->slots[i].p)) & t->mask;
        if (far < ((i - hole) & t->mask))
            continue;
        t->slots[hole] = t->slots[i];
        hole = i;
    }
    t->slots[hole].p = 0;
    used--;
}

static void put_locked(const sample_t *s) {
    *slot_of(blocks, s->p) = *s;
    used++;
    like_locked((const void *)s->p, 1);
    sum_up(&s->stack->in_use, &hk_profile_in_use, s, true);
}

/* Returns its bytes, at least 1; 0: it is not known. */
static size_t remove_locked(const void *p, sample_t *was) {
    sample_t *slot = blocks != NULL ? slot_of(blocks, (uintptr_t)p) : NULL;
    if (slot == NULL || slot->p == 0)
        return 0;
    const size_t n = hk_max(slot->n, 1);
    if (was != NULL)
        *was = *slot;
    sum_up(&slot->stack->in_use, &hk_profile_in_use, slot, false);
    empty_locked(slot);
    return n;
}

size_t hk_profile_remove(const void *p, bool waits, hk_profile_block_t *was) {
    if (hk_load_relaxed(&stale) || !enter(waits))
        return 0;
    const size_t n = remove_locked(p, was);
    hk_unlock(&lock);
    if (n != 0)
        HK_PROBE("otel_memory", free, "8@%0", "r"(p));
    return n;
}

static void probe_alloc(const sample_t *s) {
    HK_PROBE("otel_memory", alloc, "8@%0 8@%1 8@%2", "r"(s->p), "r"(s->n), "r"(bytes_for(s)));
}

void hk_profile_put_back(const hk_profile_block_t *was, bool waits) {
    if (!enter(waits))
        return;
    if (has_room_locked())
        put_locked(was);
    else
        add(&hk_profile_lost, 1);
    hk_unlock(&lock);
    probe_alloc(was);
}

/* A block already known at p was freed untold, so it is removed first. */
void hk_profile_add(const void *p, size_t n, double chance, void *const *frames, unsigned count,
                    bool waits) {
    sample_t sample = {(uintptr_t)p, n, chance, NULL};
    if (!enter(waits))
        return;
    remove_locked(p, NULL);
    stack_t *stack = sample.stack = stack_locked(frames, count);
    if (stack == NULL || !has_room_locked()) {
        add(&hk_profile_lost, 1);
    } else {
        put_locked(&sample);
        sum_up(&stack->allocated, &hk_profile_allocated, &sample, true);
    }
    hk_unlock(&lock);
    probe_alloc(&sample);
}

/* ---- what is reached ---- */

bool hk_profile_freeze(size_t *count) {
    if (!enter(false))
        return false;
    *count = used;
    return true;
}

void hk_profile_thaw(void) { hk_unlock(&lock); }

size_t hk_profile_blocks(hk_profile_block_t *to) {
    size_t n = 0;
    if (blocks == NULL)
        return 0;
    for (size_t i = 0; i <= blocks->mask; i++)
        if (blocks->slots[i].p != 0)
            to[n++] = blocks->slots[i];
    to[n++] = (sample_t){(uintptr_t)blocks, bytes_of(blocks->mask + 1), 1, NULL};
    return n;
}

void hk_profile_reached(const hk_profile_block_t *b, size_t count) {
    _Atomic uint64_t all = 0;
    for (size_t i = 0; i < count; i++)
        if (b[i].stack != NULL)
            sum_up(&b[i].stack->unreached, &all, &b[i], true);
}
