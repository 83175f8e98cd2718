/* Heaps: taking and giving, remote frees, retiring, adoption, and what ends the process. The tests
 * work on heaps of their own, which no thread serves, and check each slab's equation at every
 * step. */
#include "backend/heap.h"

#include <limits.h>
#include <pthread.h>
#include <ucontext.h>

#include "backend/pagemap.h"
#include "check.h"
#include "hakmem/hakmem.h"
#include "pool_stats.h"

enum { BATCH = 64, MOST = 2 * HK_SLAB_MAX_BLOCKS };

static hk_heap_t a, b, orphan;

static unsigned bits_of(uint64_t word) { return (unsigned)__builtin_popcountll(word); }

/* free + remote + held by the test (magazines and blocks in use) == blocks. */
static void check_slab(const hk_slab_t *slab, unsigned held) {
    const hk_class_t *c = &hk_classes[slab->cls];
    unsigned free = 0, remote = 0;
    for (unsigned w = 0; w < HK_BITMAP_WORDS && w < (c->blocks + 63u) / 64; w++) {
        free += bits_of(slab->bits[w]);
        remote += bits_of(hk_load_relaxed(&hk_remote_bits(slab, c)[w]));
        CHECK_EQ(slab->summary >> w & 1, slab->bits[w] != 0);
    }
    CHECK_EQ(hk_load_relaxed(&slab->free), free);
    CHECK_EQ(free + remote + held, c->blocks);
    /* listed exactly while it has free blocks; remote bits never without a pending entry */
    CHECK_EQ(slab->listed, free != 0);
    CHECK(remote == 0 || hk_load_relaxed(&hk_remote_of(slab)->pending) == 1);
}

/* Takes exactly n blocks in batches; within a batch the lowest address comes last. */
static void take(hk_heap_t *heap, unsigned cls, void **out, unsigned n) {
    for (unsigned have = 0; have < n;) {
        unsigned want = (unsigned)hk_min(BATCH, n - have);
        unsigned got = hk_heap_take(heap, cls, out + have, want);
        CHECK(got >= 1 && got <= want);
        for (unsigned i = have + 1; i < have + got; i++)
            CHECK(hk_slab_of(out[i]) != hk_slab_of(out[i - 1]) || out[i] < out[i - 1]);
        have += got;
    }
}

static void shuffle(void **blocks, unsigned n) {
    static uint64_t state = 1;
    for (unsigned i = n; i > 1; i--) {
        unsigned j = chance_below(&state, i);
        void *p = blocks[i - 1];
        blocks[i - 1] = blocks[j];
        blocks[j] = p;
    }
}

/* How many of blocks[0..n) lie in the slab. */
static unsigned held_in(const hk_slab_t *slab, void *const *blocks, unsigned n) {
    unsigned held = 0;
    for (unsigned i = 0; i < n; i++)
        held += hk_slab_of(blocks[i]) == slab;
    return held;
}

/* blocks[0..n) are all of the slab's blocks, each once. */
static void check_all_once(const hk_slab_t *slab, void *const *blocks, unsigned n) {
    static bool seen[HK_SLAB_MAX_BLOCKS];
    const hk_class_t *c = &hk_classes[slab->cls];
    CHECK_EQ(n, c->blocks);
    memset(seen, 0, sizeof seen);
    for (unsigned i = 0; i < n; i++) {
        size_t offset = (size_t)((char *)blocks[i] - slab->base);
        CHECK(offset % c->size == 0 && offset / c->size < c->blocks);
        CHECK(!seen[offset / c->size]);
        seen[offset / c->size] = true;
    }
}

/* A heap that starts without slabs: the first slab's worth of blocks is one slab, whole. */
static void take_and_give(void) {
    static void *blocks[MOST];
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        unsigned n = hk_classes[cls].blocks;
        take(&a, cls, blocks, n);
        hk_slab_t *slab = hk_slab_of(blocks[0]);
        CHECK(hk_load_relaxed(&slab->owner) == &a);
        check_all_once(slab, blocks, n);
        check_slab(slab, n);
        CHECK(a.partial[cls] == NULL);

        /* back in three ways: address order, reverse order, no order; and some of it out again */
        for (unsigned way = 0; way < 3; way++) {
            if (way == 1)
                for (unsigned i = 0; i < n / 2; i++) {
                    void *p = blocks[i];
                    blocks[i] = blocks[n - 1 - i];
                    blocks[n - 1 - i] = p;
                }
            if (way == 2)
                shuffle(blocks, n);
            unsigned first = n / 3;
            hk_heap_give(&a, cls, blocks, first);
            check_slab(slab, n - first);
            hk_heap_give(&a, cls, blocks + first, n - first);
            check_slab(slab, 0);
            CHECK(a.partial[cls] == slab); /* a class's last slab with free blocks stays */
            take(&a, cls, blocks, n);
            CHECK(hk_slab_of(blocks[n - 1]) == slab);
            check_all_once(slab, blocks, n);
        }
        for (unsigned i = 0; i < n; i++)
            hk_heap_give(&a, cls, &blocks[i], 1);
        check_slab(slab, 0);
        hk_heap_collect(&a);
        CHECK(a.partial[cls] == NULL && hk_load_relaxed(&slab->owner) == NULL);
        CHECK(hk_map_kind(slab->base) != cls);
    }
}

/* One batch may hold blocks of many slabs, in any order. */
static void batches_across_slabs(void) {
    static void *blocks[MOST];
    const unsigned cls = hk_class_of(1024), per_slab = hk_classes[cls].blocks, n = 5 * per_slab;
    take(&a, cls, blocks, n);
    hk_slab_t *slabs[5];
    for (unsigned s = 0; s < 5; s++)
        slabs[s] = hk_slab_of(blocks[s * per_slab]);
    shuffle(blocks, n);
    hk_heap_give(&a, cls, blocks, n / 2);
    for (unsigned s = 0; s < 5; s++)
        check_slab(slabs[s], held_in(slabs[s], blocks + n / 2, n - n / 2));
    hk_heap_give(&a, cls, blocks + n / 2, n - n / 2);
    unsigned left = 0;
    for (unsigned s = 0; s < 5; s++)
        left += hk_load_relaxed(&slabs[s]->owner) == &a;
    CHECK_EQ(left, 1); /* the empty ones went back but for the last */
    hk_heap_collect(&a);
}

static void remote_frees(void) {
    static void *blocks[MOST];
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls += 3) {
        unsigned n = hk_classes[cls].blocks, half = n / 2;
        take(&a, cls, blocks, n);
        hk_slab_t *slab = hk_slab_of(blocks[0]);
        shuffle(blocks, n);
        hk_heap_give(&b, cls, blocks, half);
        CHECK_EQ(hk_load_relaxed(&slab->free), 0); /* not the owner's yet */
        CHECK(b.partial[cls] == NULL);
        if (half != 0)
            CHECK(hk_load_relaxed(&a.pending) == slab);
        check_slab(slab, n - half);
        hk_heap_give(&b, cls, blocks + half, 1); /* is on the list once */
        CHECK(half == 0 || hk_remote_of(slab)->pending_next == NULL);
        check_slab(slab, n - half - 1);
        if (n > 1) {
            unsigned got = hk_heap_take(&a, cls, blocks, 1); /* a visit collects */
            CHECK(got == 1 && hk_slab_of(blocks[0]) == slab);
            CHECK(hk_load_relaxed(&a.pending) == NULL &&
                  hk_load_relaxed(&hk_remote_of(slab)->pending) == 0);
            check_slab(slab, n - half);
            hk_heap_give(&a, cls, blocks, 1);
        }
        hk_heap_give(&b, cls, blocks + half + 1, n - half - 1);
        hk_heap_collect_all(false, hk_stash_clear); /* anybody may; what is empty then goes back */
        CHECK(hk_load_relaxed(&a.pending) == NULL && a.partial[cls] == NULL);
        CHECK(hk_load_relaxed(&slab->owner) == NULL);
    }
}

/* An emptied slab's memory serves any other class: the pool does not grow. */
static void retired_slabs_serve_any_class(void) {
    static void *blocks[4 * HK_SLAB_MAX_BLOCKS];
    size_t most = 0;
    for (unsigned round = 0; round < 3 * HK_CLASS_FIXED; round++) {
        unsigned cls = 1 + round * 17 % (HK_CLASS_FIXED - 1);
        hk_heap_t *heap = round % 2 ? &a : &b, *other = round % 3 ? &b : &a;
        unsigned n = 4 * hk_classes[cls].blocks;
        take(heap, cls, blocks, n);
        hk_heap_give(other, cls, blocks, n);
        hk_heap_collect(heap);
        CHECK(heap->partial[cls] == NULL);
        if (round == 4)
            most = pool_stats().superslabs;
        CHECK(round < 4 || pool_stats().superslabs <= most);
    }
}

/* A running heap takes over what an orphan has, before it carves new slabs; full slabs as well,
 * once one of their blocks is freed. */
static void orphans_are_adopted(void) {
    static void *blocks[HK_CLASS_FIXED][MOST];
    static void *mine[2];
    unsigned adopted = 0;
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        unsigned n = hk_classes[cls].blocks;
        take(&orphan, cls, blocks[cls], n);
        if (cls % 2 == 0) /* an even class's slab is partly free, an odd one's is full */
            hk_heap_give(&orphan, cls, blocks[cls] + n - 1, 1);
    }
    hk_heap_set_orphan(&orphan, true);
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        unsigned n = hk_classes[cls].blocks;
        hk_slab_t *slab = hk_slab_of(blocks[cls][0]);
        if (cls % 2 != 0)
            hk_heap_give(&b, cls, blocks[cls] + n - 1, 1);
        CHECK_EQ(hk_heap_take(&b, cls, mine, 1), 1);
        bool took_over = hk_load_relaxed(&slab->owner) == &b;
        CHECK(took_over == (mine[0] == blocks[cls][n - 1]));
        check_slab(slab, took_over ? n : n - 1);
        adopted += took_over;
        hk_heap_give(&b, cls, mine, 1);
        hk_heap_give(&b, cls, blocks[cls], n - 1); /* own blocks now, or remote ones */
        check_slab(slab, 0);
    }
    CHECK(adopted + 3 >= HK_CLASS_FIXED - 1); /* the search may begin elsewhere once or twice */
    hk_heap_set_orphan(&orphan, false);
    hk_heap_collect(&orphan);
    hk_heap_collect(&b);
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        CHECK(orphan.partial[cls] == NULL && b.partial[cls] == NULL);
}

/* Two heaps, any heap frees; the equation holds for all slabs all the time. */
static void random_traffic(void) {
    enum { LIVE = 3000, STEPS = 30000 };
    static void *live[LIVE];
    const unsigned cls = hk_class_of(600);
    hk_heap_t *heaps[] = {&a, &b};
    uint64_t state = 42;
    unsigned n = 0;
    size_t active = pool_stats().active;
    for (unsigned step = 0; step < STEPS; step++) {
        hk_heap_t *heap = heaps[chance_below(&state, 2)];
        unsigned count = 1 + chance_below(&state, 32);
        if (chance_below(&state, 100) < (step / 4000 % 2 ? 35u : 65u)) {
            count = (unsigned)hk_min(count, LIVE - n);
            if (count == 0)
                continue;
            unsigned got = hk_heap_take(heap, cls, live + n, count);
            CHECK(got >= 1);
            for (unsigned i = n; i < n + got; i++)
                *(void **)live[i] = live[i];
            n += got;
        } else {
            count = (unsigned)hk_min(count, n);
            for (unsigned i = 0; i < count; i++) {
                unsigned j = chance_below(&state, n - i), last = n - 1 - i;
                void *p = live[j];
                live[j] = live[last];
                live[last] = p;
                CHECK(*(void **)p == p);
            }
            n -= count;
            if (count != 0)
                hk_heap_give(heap, cls, live + n, count);
        }
        if (step % 1000 == 0)
            for (unsigned i = 0; i < n; i += 7)
                check_slab(hk_slab_of(live[i]), held_in(hk_slab_of(live[i]), live, n));
    }
    hk_heap_give(&a, cls, live, n);
    hk_heap_collect(&b);
    hk_heap_collect(&a);
    CHECK(a.partial[cls] == NULL && b.partial[cls] == NULL);
    CHECK_EQ(pool_stats().active, active);
}

/* ---- what ends the process ---- */

typedef struct {
    hk_heap_t *first, *second; /* who gives p1 and p2 */
    unsigned cls;
    void *p1, *p2;
} crime_t;

static void commit_crime(void *argument) {
    crime_t *crime = argument;
    if (crime->p1 != NULL)
        hk_heap_give(crime->first, crime->cls, &crime->p1, 1);
    hk_heap_give(crime->second, crime->cls, &crime->p2, 1);
    hk_heap_collect(&a);
}

/* Both in one batch, as a flush of a magazine would. */
static void commit_in_one_batch(void *argument) {
    crime_t *crime = argument;
    hk_heap_give(&a, crime->cls, (void *[]){crime->p1, crime->p2}, 2);
}

static void double_and_invalid_frees_abort(void) {
    static void *blocks[MOST];
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls += 8) {
        unsigned n = hk_classes[cls].blocks;
        char *p, *tail;
        take(&a, cls, blocks, n);
        p = blocks[n / 2];
        tail = hk_slab_of(p)->base + (size_t)n * hk_classes[cls].size;
        crime_t twice[] = {
            {&a, &a, cls, p, p}, {&b, &b, cls, p, p}, {&a, &b, cls, p, p}, {&b, &a, cls, p, p}};
        for (unsigned i = 0; i < 4; i++)
            CHECK_FATAL(commit_crime, &twice[i], "double free", p);
        CHECK_FATAL(commit_in_one_batch, &twice[0], "double free", p);
        const unsigned next = cls % (HK_CLASS_FIXED - 1) + 1;
        crime_t inside = {&a, &a, cls, NULL, p + 4}, other = {&a, &a, next, NULL, p};
        CHECK_FATAL(commit_crime, &inside, "invalid free", p + 4);
        CHECK_FATAL(commit_crime, &other, "invalid free", p);
        if (tail < hk_slab_of(p)->base + hk_classes[cls].slices * HK_SLICE) {
            crime_t behind = {&a, &a, cls, NULL, tail};
            CHECK_FATAL(commit_crime, &behind, "invalid free", tail);
        }
        crime_t nobodys = {&a, &b, cls, NULL, (void *)&a};
        CHECK_FATAL(commit_crime, &nobodys, "invalid free", &a);
        hk_heap_give(&a, cls, blocks, n);
        hk_heap_collect(&a);
        crime_t late = {&a, &a, cls, NULL, p}; /* its slab is gone */
        CHECK_FATAL(commit_crime, &late, "invalid free", p);
    }
}

/* In a sparse class the slab that was full until now is the next to serve, and the emptier ones in line gather more;
 * whoever needs a new slab has ended that. */
static void sparse_classes_gather(void) {
    enum { SLABS = 12 };
    static void *blocks[MOST];
    const unsigned cls = hk_class_of(1024), per = hk_classes[cls].blocks;
    const uint64_t bit = (uint64_t)1 << cls;
    for (unsigned sparse = 0; sparse < 2; sparse++) {
        void *last, *got;
        hk_store_relaxed(&hk_heap_sparse, UINT64_MAX);
        take(&a, cls, blocks, SLABS * per);
        CHECK_EQ(hk_load_relaxed(&hk_heap_sparse), ~bit);
        for (unsigned i = 0; i < SLABS - 1; i++)
            hk_heap_give(&a, cls, &blocks[i * per], 2);
        hk_store_relaxed(&hk_heap_sparse, sparse != 0 ? bit : 0);
        last = blocks[(SLABS - 1) * per];
        hk_heap_give(&a, cls, &blocks[(SLABS - 1) * per], 1);
        CHECK_EQ(hk_heap_take(&a, cls, &got, 1), 1);
        CHECK_EQ(got == last, sparse != 0);
        hk_heap_give(&a, cls, &got, 1);
        for (unsigned i = 0; i < SLABS; i++) {
            const unsigned gone = i < SLABS - 1 ? 2 : 1;
            hk_heap_give(&a, cls, &blocks[i * per + gone], per - gone);
        }
        hk_heap_collect(&a);
    }
    hk_store_relaxed(&hk_heap_sparse, (uint64_t)0);
}

/* ---- while a heap collects ---- */

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
enum { STEPPED = 2, TRAP_FLAG = 0x100 };
static hk_slab_t *stepped[STEPPED]; /* pending, so far */
static void *late[STEPPED];         /* a block of each that another thread frees meanwhile: */
static unsigned left;               /* after so many changes that others see */
static uint64_t seen;
static volatile sig_atomic_t collected;

static uint64_t seen_by_others(void) {
    uint64_t sum = (uintptr_t)hk_load_relaxed(&a.pending);
    for (unsigned i = 0; i < STEPPED; i++) {
        const hk_class_t *c = &hk_classes[stepped[i]->cls];
        sum = sum * 1000003 + hk_load_relaxed(&hk_remote_of(stepped[i])->pending);
        sum = sum * 1000003 + hk_load_relaxed(&hk_remote_bits(stepped[i], c)[0]);
    }
    return sum;
}

/* Once raised it comes after each instruction. */
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

/* The remote-free protocol, in each order: what is freed while it is collected is collected too, or pending again. */
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
    CHECK(changes > 1 + 2 * STEPPED); /* the list, and of each slab its place on it and its bits */
}

/* ---- a fork in the middle of a free without locks ---- */

static atomic_uint stopped; /* 1: the thread is where it is to be, 2: it goes on */

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

static void *beside[2]; /* blocks of that slab, still in use; or of one that was */

/* What was being freed is collected, and so is what is freed there from now on. */
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

/* The descriptor serves another slab by now. */
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

static void forked_while_freed(void) {
    static child_t child;
    static void *blocks[MOST];
    const unsigned cls = hk_class_of(4096), n = hk_classes[cls].blocks;
    CHECK(sigaction(SIGTRAP,
                    &(struct sigaction){.sa_sigaction = on_step_of_free, .sa_flags = SA_SIGINFO},
                    NULL) == 0);
    for (unsigned changes = 1; changes <= 4; changes++) {
        pthread_t thread;
        const bool retires = changes == 4; /* `pending` is set, and the slab goes meanwhile */
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
#else
static void freed_while_collected(void) {}
static void forked_while_freed(void) {}
#endif

int main(void) {
    hak_free(hak_malloc(1));
    hk_heap_init(&a);
    hk_heap_init(&b);
    hk_heap_init(&orphan);
    take_and_give();
    batches_across_slabs();
    remote_frees();
    retired_slabs_serve_any_class();
    orphans_are_adopted();
    sparse_classes_gather();
    freed_while_collected();
    forked_while_freed();
    random_traffic();
    double_and_invalid_frees_abort();
    return 0;
}
