/* Purging heaps while their threads go on: live blocks keep their contents and no block is lost, also if slabs change
 * owners meanwhile, a fork comes, or the system refuses. */
#include "backend/purge.h"

#include <pthread.h>
#include <sys/syscall.h>

#include "backend/heap.h"
#include "backend/slab.h"
#include "config/config.h"
#include "front/magazine.h"
#include "front/thread.h"
#include "hakmem/hakmem.h"
#include "policy/look.h"
#include "policy/purger.h"
#include "superslabs.h"

static size_t page;
static hk_heap_t a, b;

enum { HEAP_BLOCKS = 3 * HK_SLAB_MAX_BLOCKS };
static void *held[HEAP_BLOCKS];
static bool kept[HEAP_BLOCKS];

static void fill(hk_heap_t *heap, unsigned cls, unsigned n) {
    for (unsigned have = 0; have < n;)
        have += hk_heap_take(heap, cls, held + have, n - have);
    for (unsigned i = 0; i < n; i++) {
        memset(held[i], (int)(i % 251 + 1), hk_classes[cls].size);
        kept[i] = true;
    }
}

static void check_held(unsigned cls, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        if (kept[i])
            CHECK(reads_as(held[i], hk_classes[cls].size, (char)(i % 251 + 1)));
}

/* Frees all blocks of a stretch of four pages, or none: of `percent` of the stretches. */
static void give_some(hk_heap_t *heap, unsigned cls, unsigned n, unsigned percent, uint64_t *rng) {
    uintptr_t stretch = 0;
    bool give = false;
    for (unsigned i = 0; i < n; i++) {
        if ((uintptr_t)held[i] / (4 * page) != stretch)
            give = chance_below(rng, 100) < percent;
        stretch = (uintptr_t)held[i] / (4 * page);
        if (kept[i] && give) {
            kept[i] = false;
            hk_heap_give(heap, cls, &held[i], 1);
        }
    }
}

/* Whole purges, eager and lazy, aged and not: contents stay, all blocks come back, and repeated purges soon find
 * nothing more. */
static void superslabs_are_purged(void) {
    static const unsigned classes[] = {1, 5, 13, 20, 27, 32, 36, 40};
    uint64_t rng = 5;
    for (unsigned i = 0; i < sizeof classes / sizeof *classes; i++)
        for (unsigned way = 0; way < 4; way++) {
            const unsigned cls = classes[i], n = 3u * hk_classes[cls].blocks;
            const hk_advice_t how = way % 2 ? HK_RESET : HK_PURGE;
            const bool aged = way / 2;
            unsigned again = 0;
            fill(&a, cls, n);
            purge_each(HK_PURGE, false);
            give_some(way % 3 ? &a : &b, cls, n, 70, &rng);
            hk_heap_collect_all(false, hk_stash_clear);
            if (aged)
                CHECK_EQ(purge_each(how, true), 0);
            const size_t came_back = purge_each(how, aged);
            CHECK(came_back >= page || page > 4096); /* with large OS pages none may be free */
            while (purge_each(how, aged) != 0) /* the slices of slabs that the last purge retired */
                CHECK(++again < 4);
            check_held(cls, n);
            give_some(&a, cls, n, 100, &rng);
            hk_heap_collect(&a);
            CHECK(a.partial[cls] == NULL && b.partial[cls] == NULL);
        }
}

/* A cursor may be stale when its superslab is purged: its slabs, and the superslab, are gone, or others lie there. */
static void what_a_cursor_knows_may_have_changed(void) {
    enum { CURSORS = 8, SLABS = 3 * HK_SLICES };
    static hk_pool_cursor_t cursors[CURSORS];
    const unsigned cls = hk_class_of(1024), n = SLABS * hk_classes[cls].blocks;
    uint64_t rng = 7;
    bool seen = false;
    unsigned count = 0, gone = 0;
    fill(&a, cls, n);
    for (hk_pool_cursor_t cursor = {0}; count < CURSORS && hk_pool_next(&cursor);)
        if (cursor.count != 0)
            cursors[count++] = cursor;
    give_some(&a, cls, n, 100, &rng);
    hk_heap_collect(&a);
    purge_all();
    for (unsigned i = 0; i < count; i++) {
        gone += hk_map_owner(cursors[i].base) != cursors[i].superslab;
        hk_purge_superslab(&cursors[i], HK_PURGE, false, &seen);
    }
    CHECK(gone != 0);
    fill(&a, cls, n);
    give_some(&a, cls, n, 50, &rng);
    for (unsigned i = 0; i < count; i++)
        hk_purge_superslab(&cursors[i], HK_PURGE, false, &seen);
    check_held(cls, n);
    give_some(&a, cls, n, 100, &rng);
    hk_heap_collect(&a);
    CHECK(a.partial[cls] == NULL);
}

/* A slab is unlisted while all its free blocks are claimed, and not retired while some are; the claimed blocks come
 * back to the slab's owner at that time, which another heap may have become. */
static void owners_change_meanwhile(void) {
    const unsigned cls = hk_class_of(1024), n = hk_classes[cls].blocks;
    uint64_t rng = 9;
    bool seen = false;
    fill(&a, cls, n);
    hk_slab_t *slab = hk_slab_of(held[0]);
    give_some(&a, cls, n / 2, 100, &rng);
    uint64_t pages = hk_heap_claim(slab, false, &seen);
    CHECK(pages != 0 && !slab->listed && a.partial[cls] == NULL && !seen);
    CHECK_EQ(hk_load_relaxed(&slab->free), 0);
    give_some(&b, cls, n - 1, 100, &rng); /* meanwhile all blocks in use but one are freed */
    hk_heap_collect(&a);
    CHECK(hk_load_relaxed(&slab->owner) == &a && slab->listed);
    hk_heap_set_orphan(&a, true);
    void *one[1];
    while (hk_load_relaxed(&slab->owner) != &b) /* the search may begin at another orphan */
        CHECK_EQ(hk_heap_take(&b, cls, one, 1), 1);
    hk_heap_set_orphan(&a, false);
    hk_heap_unclaim(slab, pages, pages, false);
    CHECK_EQ(hk_load_relaxed(&slab->clean), pages);
    CHECK(hk_load_relaxed(&slab->owner) == &b && b.partial[cls] != NULL);
    check_held(cls, n);
    give_some(&b, cls, n, 100, &rng);
    hk_heap_give(&b, cls, one, 1);
    hk_heap_collect(&b);
    CHECK(b.partial[cls] == NULL && hk_load_relaxed(&slab->owner) == NULL);
    CHECK_EQ(hk_heap_claim(slab, false, &seen), 0); /* it has no owner */
}

static atomic_bool may_call, calling;
static hk_slab_t *contested;
static uint64_t got;

static void *claim_contested(void *unused) {
    bool seen = false;
    while (!atomic_load(&may_call))
        usleep(100);
    atomic_store(&calling, true);
    got = hk_heap_claim(contested, false, &seen);
    return unused;
}

/* A claim that waited for the heap's lock checks the slab's owner again: the slab may have left the heap. */
static void the_owner_is_checked_again(void) {
    const unsigned cls = hk_class_of(1024), n = hk_classes[cls].blocks;
    uint64_t rng = 9;
    pthread_t thread;
    fill(&a, cls, n);
    contested = hk_slab_of(held[0]);
    give_some(&a, cls, n / 2, 100, &rng);
    CHECK(pthread_create(&thread, NULL, claim_contested, NULL) == 0);
    hk_lock(&a.lock);
    atomic_store(&may_call, true);
    while (!atomic_load(&calling))
        usleep(100);
    usleep(20000); /* the claim waits by now; if not, it finds no owner at once */
    hk_store_seq(&contested->owner, NULL);
    hk_unlock(&a.lock);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(got, 0);
    CHECK_EQ(hk_load_relaxed(&contested->free), n / 2);
    hk_store_seq(&contested->owner, &a);
    give_some(&a, cls, n, 100, &rng);
    hk_heap_collect(&a);
}

/* ---- a system that refuses ---- */

/* Locked memory cannot be purged: its pages stay dirty and no block is lost. (By system call: the sanitizers make
 * mlock() do nothing.) */
static void refused_advice_changes_nothing(void) {
    const unsigned cls = hk_class_of(1024), n = hk_classes[cls].blocks;
    uint64_t rng = 3;
    fill(&a, cls, n);
    hk_slab_t *slab = hk_slab_of(held[0]);
    char *locked = slab->base + 8 * page;
    if (syscall(SYS_mlock, locked, page) != 0) {
        dprintf(STDERR_FILENO, "refused advice is not tested: mlock is not permitted\n");
        give_some(&a, cls, n, 100, &rng);
        return;
    }
    purge_each(HK_PURGE, false);
    for (unsigned i = 0; i < n; i++) /* the blocks of every other page */
        if ((size_t)((char *)held[i] - slab->base) / page % 2 == 0) {
            kept[i] = false;
            hk_heap_give(&a, cls, &held[i], 1);
        }
    unsigned free = hk_load_relaxed(&slab->free);
    for (unsigned round = 0; round < 3; round++) {
        purge_each(round == 1 ? HK_RESET : HK_PURGE, false);
        CHECK_EQ(hk_load_relaxed(&slab->clean) >> 8 & 1, 0);
        CHECK_EQ(hk_load_relaxed(&slab->free), free);
        check_held(cls, n);
    }
    CHECK(syscall(SYS_munlock, locked, page) == 0);
    CHECK(purge_each(HK_PURGE, false) >= page);
    CHECK_EQ(hk_load_relaxed(&slab->clean) >> 8 & 1, 1);
    CHECK_EQ(hk_load_relaxed(&slab->free), free);
    check_held(cls, n);
    give_some(&a, cls, n, 100, &rng);
    hk_heap_collect(&a);
    CHECK(a.partial[cls] == NULL);
}

/* Nor are free slices taken for fresh if the system refused to purge them. */
static void refused_slices_are_not_fresh(void) {
    hk_slab_t *whole = own_superslab(false), *runs[HK_SLICES];
    char *locked = whole->base + 5 * HK_SLICE;
    if (syscall(SYS_mlock, locked, page) == 0) {
        purge_each(HK_PURGE, false);
        CHECK(syscall(SYS_munlock, locked, page) == 0);
        CHECK_EQ(locked[0], 0x5a);
    }
    for (unsigned i = 1; i < HK_SLICES; i++) {
        runs[i] = take_in(whole, 1, 0);
        CHECK(!runs[i]->zeroed || reads_as(runs[i]->base, HK_SLICE, 0));
    }
    for (unsigned i = 1; i < HK_SLICES; i++)
        hk_pool_give(runs[i]);
    hk_pool_give(whole);
    clear_the_way();
}

/* The flags of the mapping that p lies in, as the kernel writes them. */
static void read_flags(const char *p, char *line, int room) {
    uintptr_t from, to;
    bool inside = false, found = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps != NULL);
    while (!found && fgets(line, room, maps) != NULL) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            inside = (uintptr_t)p >= from && (uintptr_t)p < to;
        found = inside && strncmp(line, "VmFlags:", 8) == 0;
    }
    fclose(maps);
    CHECK(found);
}

/* A superslab with purged pages is excluded from huge pages: one would bring the pages back. */
static void huge_pages_are_ruled_out(void) {
    const unsigned cls = hk_class_of(1024), n = 8u * hk_classes[cls].blocks;
    uint64_t rng = 3;
    char line[256];
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0)
        return;
    fill(&a, cls, n);
    give_some(&a, cls, n, 50, &rng);
    CHECK(purge_each(HK_PURGE, false) > page);
    for (unsigned i = 0; i < n; i++)
        if (hk_load_relaxed(&hk_slab_of(held[i])->clean) != 0) {
            read_flags(held[i], line, sizeof line);
            CHECK(strstr(line, " nh") != NULL);
        }
    give_some(&a, cls, n, 100, &rng);
    hk_heap_collect(&a);
}

static atomic_bool purging;
static atomic_bool has_begun; /* purged once: the thread has allocated all that it needs */
static atomic_uint forks;     /* begun */
static atomic_uint pushed_in; /* times that it entered although a fork waited */

static void *purge_again_and_again(void *unused) {
    while (atomic_load(&purging)) {
        const unsigned begun = atomic_load(&forks);
        const bool waits = hk_load_seq(&hk_fork_waits);
        hk_thread_t *self = hk_thread_enter(); /* a fork waits for threads that have entered */
        if (self == NULL)
            continue;
        const bool still = hk_load_seq(&hk_fork_waits);
        atomic_fetch_add(&pushed_in,
                         waits && still && begun == atomic_load(&forks)); /* not the next fork */
        purge_each(HK_PURGE, false);
        hk_thread_leave(self);
        atomic_store(&has_begun, true);
    }
    return unused;
}

/* No block is claimed in a fork's child: nothing there would give it back. */
static void check_child(void *argument) {
    const unsigned cls = hk_class_of(1024), n = *(unsigned *)argument;
    uint64_t rng = 3;
    check_held(cls, n);
    give_some(&a, cls, n, 100, &rng);
    hk_heap_collect(&a);
    CHECK(a.partial[cls] == NULL);
    for (unsigned i = 0; i < n; i++) {
        const hk_slab_t *slab = hk_slab_of(held[i]);
        CHECK(slab == NULL || hk_load_relaxed(&slab->owner) != &a);
    }
}

static void forks_see_no_claims(void) {
    enum { FORKS = 40, SLABS = 96 };
    static child_t child;
    const unsigned cls = hk_class_of(1024);
    unsigned n = SLABS * hk_classes[cls].blocks;
    uint64_t rng = 11;
    pthread_t thread;
    atomic_store(&purging, true);
    CHECK(pthread_create(&thread, NULL, purge_again_and_again, NULL) == 0);
    for (unsigned i = 0; i < FORKS; i++) {
        fill(&a, cls, n);
        give_some(&a, cls, n, 50, &rng);
        atomic_fetch_add(&forks, 1);
        child_run(&child, check_child, &n);
        CHECK_TEXT(child.text, "");
        CHECK_EQ(child.status, 0);
        give_some(&a, cls, n, 100, &rng);
    }
    atomic_store(&purging, false);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(atomic_load(&pushed_in), 0);
    hk_heap_collect(&a);
    CHECK(a.partial[cls] == NULL);
}

#if HK_DEBUG
/* An allocation does not fail because the only free memory is claimed for a purge: it waits for the purge. */
static void claims_do_not_exhaust_memory(void) {
    enum { BYTES = 3 << 19, ROUNDS = 20000 };
    pthread_t thread;
    hk_slab_t *whole = own_superslab(false), *run = take_in(whole, BYTES / HK_SLICE, 0);
    atomic_store(&has_begun, false);
    atomic_store(&purging, true);
    CHECK(pthread_create(&thread, NULL, purge_again_and_again, NULL) == 0);
    while (!atomic_load(&has_begun))
        sched_yield();
    purge_all(); /* so that nothing is cached */
    hk_pool_give(run);
    hk_os_fail_after(0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        char *p = hak_malloc(BYTES);
        CHECK(p != NULL);
        *p = 1;
        hak_free(p);
    }
    hk_os_fail_after(-1);
    atomic_store(&purging, false);
    CHECK(pthread_join(thread, NULL) == 0);
    hk_pool_give(whole);
    clear_the_way();
}
#endif

/* A whole look; `alone`: as if one thread allocated, which is when it looks for sparse classes. */
static void look(bool alone) {
    hk_store_relaxed(&hk_purger_on_foot, alone);
    hk_lock(&hk_look_lock);
    hk_look_begin(false, alone);
    while (hk_look_step(HK_DECOMMIT_DONTNEED))
        continue;
    hk_unlock(&hk_look_lock);
}

static void sparse_classes_are_found(void) {
    const unsigned sparse = hk_class_of(1024), full = hk_class_of(512), few = hk_class_of(2048);
    enum { OTHERS = 4096 };
    static void *others[OTHERS];
    fill(&a, sparse, 1024); /* 1 MiB, half of it freed: enough to be sparse */
    for (unsigned i = 0; i < 1024; i += 2)
        hk_heap_give(&a, sparse, &held[i], 1);
    CHECK_EQ(hk_heap_take(&b, few, others, 32), 32);
    hk_heap_give(&b, few, others, 31);
    for (unsigned have = 0; have < OTHERS;)
        have += hk_heap_take(&b, full, others + have, OTHERS - have);
    for (unsigned i = 0; i < OTHERS; i += 6)
        hk_heap_give(&b, full, &others[i], 1);
    look(true);
    CHECK(hk_heap_is_sparse(sparse) && !hk_heap_is_sparse(full) && !hk_heap_is_sparse(few));
    look(false);
    CHECK_EQ(hk_load_relaxed(&hk_heap_sparse), 0);
    look(true);
    CHECK(hk_heap_is_sparse(sparse));
    hk_policy_apply();
    CHECK_EQ(hk_load_relaxed(&hk_heap_sparse), 0);
}

/* ---- the magazine budget of many threads ---- */

static size_t part_of_many(void) {
    const unsigned threads = hk_load_relaxed(&hk_heap_threads);
    hk_store_relaxed(&hk_heap_threads, 200u);
    const size_t bytes = hk_magazines_part();
    hk_store_relaxed(&hk_heap_threads, threads);
    return bytes;
}

/* The budget follows the memory that is resident now, not the addresses in use, nor the peak. */
static void budgets_go_by_memory(void) {
    enum { N = 100 };
    static void *large[N], *small[N];
    for (unsigned i = 0; i < N; i++) {
        large[i] = hak_malloc(31 * HK_SLICE);
        memset(large[i], 1, 31 * HK_SLICE);
    }
    for (unsigned i = 0; i < N; i++)
        small[i] = hak_malloc(HK_MID_MAX + 1); /* keeps the superslab of a large one */
    const size_t at_peak = part_of_many();
    for (unsigned i = 0; i < N; i++)
        hak_free(large[i]);
    look(false);
    look(false);
    CHECK(HK_HOSTILE || part_of_many() < at_peak / 2); /* there all budgets are small */
    for (unsigned i = 0; i < N; i++)
        hak_free(small[i]);
}

int main(void) {
    hk_store_relaxed(&hk_config.lean_decommit, (uint64_t)HK_DECOMMIT_OFF);
    hk_policy_apply(); /* nobody else purges */
    hak_free(hak_malloc(1));
    page = hk_os_page_size();
    hk_heap_init(&a);
    hk_heap_init(&b);
    superslabs_are_purged();
    what_a_cursor_knows_may_have_changed();
    if (page == 4096) { /* they need a slab of several pages */
        owners_change_meanwhile();
        the_owner_is_checked_again();
    }
    const bool emulated = is_emulated("the system's refusals, huge pages");
    if (page == 4096 && !emulated)
        refused_advice_changes_nothing();
    refused_slices_are_not_fresh();
    if (!emulated)
        huge_pages_are_ruled_out();
    forks_see_no_claims();
    sparse_classes_are_found();
    budgets_go_by_memory();
#if HK_DEBUG
    claims_do_not_exhaust_memory();
#endif
    return 0;
}
