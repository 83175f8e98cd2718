/* Stops a thread at each change of shared state that a collect or a remote free makes, and frees,
 * collects or forks there. Fails if a block is lost or freed twice. */
#include <pthread.h>
#include <ucontext.h>

#include "hakmem/hakmem.h"
#include "heaps.h"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)

static hk_heap_t a, b;

/* ---- while a heap collects ---- */

enum { STEPPED = 2, TRAP_FLAG = 0x100 };
static hk_slab_t *stepped[STEPPED]; /* slabs that are pending when the collect begins */
static void *late[STEPPED];         /* a block of each, freed remotely amid the collect */
static unsigned left;               /* changes of shared state until then */
static uint64_t seen;
static volatile sig_atomic_t collected;

/* A hash of the state that other threads can see. */
static uint64_t seen_by_others(void) {
    uint64_t sum = (uintptr_t)hk_load_relaxed(&a.pending);
    for (unsigned i = 0; i < STEPPED; i++) {
        const hk_class_t *c = &hk_classes[stepped[i]->cls];
        sum = sum * 1000003 + hk_load_relaxed(&hk_remote_of(stepped[i])->pending);
        sum = sum * 1000003 + hk_load_relaxed(&hk_remote_bits(stepped[i], c)[0]);
    }
    return sum;
}

/* Once raised, SIGTRAP comes after each instruction; frees the late blocks after `left` changes. */
static void on_step(int number, siginfo_t *info, void *context) {
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    const uint64_t now = seen_by_others();
    (void)number, (void)info;
    left -= now != seen;
    seen = now;
    for (unsigned i = 0; left == 0 && i < STEPPED; i++)
        hk_heap_give_remote(stepped[i]->cls, late[i]);
    *flags = left != 0 && !collected ? *flags | TRAP_FLAG : *flags & ~TRAP_FLAG;
}

/* The remote-free protocol, in each order: a block freed amid the collect must be collected too, or its
 * slab must be pending again. */
static void freed_while_collected(void) {
    static void *blocks[MOST];
    const unsigned cls = hk_class_of(4096), n = hk_classes[cls].blocks;
    unsigned changes = 0;
    CHECK(n > 2 && n <= 64);
    CHECK(sigaction(SIGTRAP, &(struct sigaction){.sa_sigaction = on_step, .sa_flags = SA_SIGINFO},
                    NULL) == 0);
    do {
        take(&a, cls, blocks, STEPPED * n);
        for (unsigned i = 0; i < STEPPED; i++) {
            late[i] = blocks[i * n];
            stepped[i] = hk_slab_of(late[i]);
            hk_heap_give(&b, cls, &blocks[i * n + 1], 1);
        }
        left = changes++;
        seen = seen_by_others();
        collected = 0;
        raise(SIGTRAP);
        hk_heap_collect(&a);
        collected = 1;
        if (left != 0)
            hk_heap_give(&b, cls, late, STEPPED);
        for (unsigned i = 0; i < STEPPED; i++)
            check_slab(stepped[i], n - 2);
        hk_heap_collect(&a);
        for (unsigned i = 0; i < STEPPED; i++) {
            CHECK_EQ(hk_load_relaxed(&stepped[i]->free), 2);
            check_slab(stepped[i], n - 2);
            hk_heap_give(&a, cls, &blocks[i * n + 2], n - 2);
        }
        hk_heap_collect(&a);
    } while (left == 0);
    CHECK(changes > 1 + 2 * STEPPED); /* the list's head, and each slab's `pending` and bits */
}

/* ---- a fork in the middle of a free without locks ---- */

static atomic_uint stopped; /* 1: the thread has stopped, 2: it may go on */

static void on_step_of_free(int number, siginfo_t *info, void *context) {
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    const uint64_t now = seen_by_others();
    (void)number, (void)info;
    left -= now != seen && left != 0;
    seen = now;
    if (left == 0 && !collected) {
        hk_store_seq(&stopped, 1u);
        while (hk_load_seq(&stopped) != 2)
            usleep(100);
        collected = 1;
    }
    *flags = collected ? *flags & ~TRAP_FLAG : *flags | TRAP_FLAG;
}

static void *free_step_by_step(void *unused) {
    seen = seen_by_others();
    raise(SIGTRAP);
    hk_heap_give_remote(stepped[0]->cls, late[0]);
    return unused;
}

static void *beside[2]; /* two more blocks of that slab, in use */

/* In the child: the block whose free the fork interrupted must be collected, and later frees too. */
static void is_collected(void *unused) {
    const unsigned n = hk_classes[stepped[0]->cls].blocks;
    (void)unused;
    hk_heap_collect(&a);
    CHECK_EQ(hk_load_relaxed(&stepped[0]->free), 1);
    check_slab(stepped[0], n - 1);
    for (unsigned i = 0; i < 2; i++)
        hk_heap_give(&b, stepped[0]->cls, &beside[i], 1);
    check_slab(stepped[0], n - 3);
    hk_heap_collect(&a);
    check_slab(stepped[0], n - 3);
    CHECK_EQ(hk_load_relaxed(&stepped[0]->free), 3);
}

/* In the child: the slab was retired amid the free, and its descriptor serves a new slab. Remote frees
 * there must be collected. */
static void serves_anew(void *slab) {
    static void *blocks[MOST];
    const unsigned cls = hk_class_of(4096), n = hk_classes[cls].blocks;
    unsigned tries = 0;
    do {
        CHECK(tries++ < MOST / n - 1);
        take(&a, cls, blocks, n);
    } while (hk_slab_of(blocks[0]) != slab);
    hk_heap_give(&b, cls, blocks, 1);
    check_slab(slab, n - 1);
    hk_heap_collect(&a);
    CHECK_EQ(hk_load_relaxed(&((hk_slab_t *)slab)->free), 1);
}

/* A thread is stopped after each change of a remote free, and the process forks. In the child, where that
 * thread is gone, the slab must still be collected. */
static void forked_while_freed(void) {
    static child_t child;
    static void *blocks[MOST];
    const unsigned cls = hk_class_of(4096), n = hk_classes[cls].blocks;
    CHECK(sigaction(SIGTRAP,
                    &(struct sigaction){.sa_sigaction = on_step_of_free, .sa_flags = SA_SIGINFO},
                    NULL) == 0);
    for (unsigned changes = 1; changes <= 4; changes++) {
        pthread_t thread;
        const bool retires = changes == 4; /* stops with `pending` set, and the slab is retired */
        take(&a, cls, blocks, STEPPED * n);
        for (unsigned i = 0; i < STEPPED; i++) {
            late[i] = blocks[i * n];
            stepped[i] = hk_slab_of(late[i]);
        }
        left = retires ? 2 : changes;
        collected = 0;
        hk_store_seq(&stopped, 0u);
        CHECK(pthread_create(&thread, NULL, free_step_by_step, NULL) == 0);
        while (hk_load_seq(&stopped) != 1)
            usleep(100);
        if (retires) {
            void *mine;
            hk_heap_give(&a, cls, &blocks[1], n - 1);
            hk_heap_set_orphan(&a, true);
            CHECK_EQ(hk_heap_take(&b, cls, &mine, 1), 1);
            hk_heap_set_orphan(&a, false);
            CHECK(hk_slab_of(mine) == stepped[0]);
            hk_heap_give(&b, cls, &mine, 1);
            hk_heap_collect(&b);
            CHECK(hk_load_relaxed(&stepped[0]->owner) == NULL);
            child_run(&child, serves_anew, stepped[0]);
        } else {
            memcpy(beside, &blocks[1], sizeof beside);
            child_run(&child, is_collected, NULL);
        }
        CHECK_TEXT(child.text, "");
        CHECK_EQ(child.status, 0);
        hk_store_seq(&stopped, 2u);
        CHECK(pthread_join(thread, NULL) == 0);
        if (!retires)
            hk_heap_give(&a, cls, &blocks[1], n - 1);
        hk_heap_give(&a, cls, &blocks[n], n);
        hk_heap_collect(&a);
    }
}

int main(void) {
    hak_free(hak_malloc(1));
    hk_heap_init(&a);
    hk_heap_init(&b);
    freed_while_collected();
    forked_while_freed();
    return 0;
}

#else

int main(void) { return unit_skip("needs single steps of x86-64, and no ThreadSanitizer"); }

#endif
