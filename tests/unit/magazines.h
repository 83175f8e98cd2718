/* Reads from a thread's record what its magazines hold and may hold, and checks them. */
#pragma once

#include "check.h"
#include "front/magazine.h"
#include "hakmem/hakmem.h"

static inline hk_thread_t *own_record(void) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    CHECK(thread != NULL && !thread->shared);
    return thread;
}

static inline void *const *slots_of(const hk_thread_t *thread, unsigned cls) {
    return hk_magazine_slots((hk_thread_t *)(uintptr_t)thread, cls);
}

/* Counts the blocks in the magazine's slots; fails if the magazine's own count differs. */
static inline unsigned held(const hk_thread_t *thread, unsigned cls) {
    unsigned n = 0;
    for (void *const *top = hk_load_relaxed(&thread->cache.top[cls]); *top != NULL; top--)
        n++;
    CHECK_EQ(hk_magazine_count(thread, cls), n);
    return n;
}

/* Fails if magazines of more than HK_FEW slots overlap in the record's rest, exceed it, or do not
 * add up to its count of slots taken. */
static inline void slots_are_apart(const hk_thread_t *thread) {
    static _Thread_local uint8_t taken[HK_SLOT_COUNT];
    const hk_thread_rest_t *rest = hk_load_relaxed(&thread->rest);
    unsigned all = 0;
    memset(taken, 0, sizeof taken);
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++) {
        const unsigned capacity = thread->magazines[cls].capacity;
        if (capacity <= HK_FEW)
            continue;
        const unsigned place = hk_load_relaxed(&rest->place[cls]);
        CHECK(place + capacity < rest->used && rest->used <= HK_SLOT_COUNT);
        CHECK(slots_of(thread, cls) == rest->slots + place);
        all += capacity + 1;
        for (unsigned i = 0; i <= capacity; i++)
            CHECK(taken[place + i]++ == 0);
    }
    CHECK(rest == NULL || rest->taken == all);
}

/* Bytes of blocks that the thread's magazines have room for; checks each magazine on the way. */
static inline size_t pinned(const hk_thread_t *thread) {
    size_t bytes = 0;
    slots_are_apart(thread);
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        unsigned capacity = thread->magazines[cls].capacity;
        CHECK(capacity <= hk_classes[cls].magazine);
        CHECK(held(thread, cls) <= capacity);
        CHECK(capacity == 0 || thread->cache.limit[cls] == slots_of(thread, cls) + capacity);
        bytes += (size_t)capacity * hk_classes[cls].size;
    }
    return bytes;
}

/* Allocates and frees many blocks, several times, so that the class's magazine grows to its
 * limit. */
static inline void drive(unsigned cls) {
    enum { BLOCKS = 3 * 256 };
    static _Thread_local void *blocks[BLOCKS];
    unsigned n = hk_classes[cls].size > 4096 ? 64 : BLOCKS;
    for (unsigned round = 0; round < 12; round++) {
        for (unsigned i = 0; i < n; i++) {
            blocks[i] = hak_malloc(hk_classes[cls].size);
            CHECK(blocks[i] != NULL);
        }
        for (unsigned i = 0; i < n; i++)
            hak_free(blocks[i]);
    }
}

static inline void check_passes(void (*fn)(void *), void *argument) {
    static child_t child;
    child_run(&child, fn, argument);
    dprintf(STDOUT_FILENO, "%s", child.text);
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}
