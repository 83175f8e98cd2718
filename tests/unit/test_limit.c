/* The memory limit: mapped bytes count; nothing may exceed it; the program's callback may free memory or
 * raise it; and after a refusal the process must go on as before. */
#include "backend/limit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "backend/pagemap.h"
#include "backend/region.h"
#include "base/counters.h"
#include "check.h"
#include "front/magazine.h"
#include "hakmem/hakmem.h"
#include "held.h"
#include "limits.h"
#include "os/os.h"

/* Held bytes may exceed the limit by the metadata, which counts but is never refused. */
#define SLACK (2 * HK_MIB)

static size_t held_mb(void) { return hk_held() / HK_MIB; }

static uint64_t refused(void) {
    hak_stats_t stats = {.size = sizeof stats};
    CHECK_EQ(hak_stats_get(&stats), 0);
    CHECK_EQ(stats.limit, hk_limit());
    return stats.refused;
}

/* ---- blocks that form a list inside themselves ---- */

typedef struct node {
    struct node *next;
    size_t n, number;
} node_t;

static node_t *push(node_t *list, node_t *node, size_t n) {
    memset(node, (int)(n & 0x7f), n);
    *node = (node_t){list, n, list != NULL ? list->number + 1 : 0};
    return node;
}

static void check_node(const node_t *node) {
    const unsigned char *bytes = (const unsigned char *)node;
    for (size_t i = sizeof *node; i < node->n; i += 509)
        CHECK_EQ(bytes[i], node->n & 0x7f);
    CHECK_EQ(bytes[node->n - 1], node->n == sizeof *node ? bytes[node->n - 1] : (node->n & 0x7f));
}

/* Frees every step-th block of the list, and returns the others in reverse. */
static node_t *drop(node_t *list, size_t step) {
    node_t *kept = NULL;
    for (size_t i = 0; list != NULL; i++) {
        node_t *next = list->next;
        check_node(list);
        if (i % step == 0) {
            hak_free(list);
        } else {
            list->next = kept;
            kept = list;
        }
        list = next;
    }
    return kept;
}

/* Allocates blocks of n bytes until one is refused; fails if the limit is exceeded. */
static node_t *fill(node_t *list, size_t n) {
    for (;;) {
        errno = 0;
        void *p = hak_malloc(n);
        if (p == NULL) {
            CHECK_EQ(errno, ENOMEM);
            return list;
        }
        CHECK(hk_held() <= hk_limit() + SLACK);
        list = push(list, p, n);
    }
}

/* ---- accounts ---- */

static void random_work(unsigned steps, uint64_t seed) {
    enum { SLOTS = 64 };
    static void *slots[SLOTS];
    static const size_t most[] = {2000, 100000, 600000, 3000000, 12000000};
    for (unsigned i = 0; i < steps; i++) {
        void **slot = &slots[chance_below(&seed, SLOTS)];
        const size_t n = 1 + chance_below(&seed, (unsigned)most[chance_below(&seed, 5)]);
        if (chance_below(&seed, 3) == 0) {
            hak_free(*slot);
            *slot = NULL;
        } else {
            void *p = hak_realloc(*slot, n);
            if (p != NULL) {
                *slot = p;
                memset(p, 1, hk_min(n, 5000));
            }
        }
        if (i % 16 == 0)
            check_held();
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        hak_free(slots[i]);
        slots[i] = NULL;
    }
    check_held();
}

/* The account of held bytes must be exact, without a limit, near one, and when the system refuses. */
static void what_counts(void) {
    hak_free(hak_malloc(100));
    check_held();
    random_work(4000, 1);
    limit_mb(held_mb() + 40);
    random_work(4000, 2);
    CHECK(hk_region_is_bounded());
    CHECK(hk_held() <= hk_limit() + SLACK);
#if HK_DEBUG
    for (long calls = 0; calls < 40; calls++) { /* with a system that refuses */
        hk_os_fail_after(calls);
        random_work(60, (uint64_t)calls + 3);
        hk_os_fail_after(-1);
        check_held();
    }
#endif
    limit_mb(0);
    hak_trim();
    check_held();
}

/* Far from its limit, a process must not count as bounded; from half of the limit on it must, and packs
 * blocks closely. */
static void not_bounded_by_a_far_limit(void *unused) {
    (void)unused;
    limit_mb(held_mb() + 4096);
    random_work(2000, 4);
    CHECK(!hk_region_is_bounded());
    hak_trim();
    limit_mb(held_mb() + 150);
    CHECK(fill(NULL, HK_MIB + 1)->number >= 100 && hk_region_is_bounded());
}

/* ---- refusals ---- */

/* For each size: most of the limit can be had, exactly one refusal is counted, and freed memory serves
 * the same and other sizes. */
static void refused_and_recovered(void) {
    static const size_t sizes[] = {sizeof(node_t), 100, 5000, 50000, 300000, 700000, 3000000};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        hak_trim();
        limit_mb(held_mb() + 32);
        const uint64_t before = refused();
        node_t *list = fill(NULL, sizes[i]);
        CHECK((list->number + 1) * sizes[i] >= 16 * HK_MIB); /* most of it can be had */
        CHECK_EQ(refused(), before + 1);
        list = fill(drop(list, 2), sizes[i]);
        list = drop(list, 1);
        void *p = hak_malloc(16 * HK_MIB); /* and in other sizes afterwards */
        CHECK(p != NULL);
        hak_free(p);
        limit_mb(0);
        CHECK(list == NULL);
    }
}

/* A limit below what is held must only refuse more, until enough is freed or it is raised. */
static void lowered_and_raised(void) {
    hak_trim();
    limit_mb(0);
    node_t *list = NULL;
    for (unsigned i = 0; i < 16; i++)
        list = push(list, hak_malloc(3000000), 3000000);
    limit_mb(held_mb() / 2);
    CHECK(hk_held() > hk_limit());
    CHECK(hak_malloc(3000000) == NULL && errno == ENOMEM);
    list = drop(list, 1);
    void *p = hak_malloc(3000000);
    CHECK(p != NULL && hk_held() <= hk_limit() + SLACK);
    CHECK(hak_malloc(100 * HK_MIB) == NULL);
    limit_mb(held_mb() + 200);
    void *q = hak_malloc(100 * HK_MIB);
    CHECK(q != NULL);
    hak_free(q);
    hak_free(p);
    limit_mb(0);
}

/* ---- the callback ---- */

static struct {
    node_t *spare; /* blocks that the callback frees */
    unsigned calls, inner;
    size_t wanted;
    bool allocates, forks;
} told;

static void free_spare(size_t wanted, void *context) {
    CHECK(context == &told);
    told.calls++;
    told.wanted = wanted;
    if (told.allocates) {
        void *p = hak_malloc(24); /* served from free memory */
        CHECK(p != NULL);
        hak_free(p);
        CHECK(hak_malloc(100 * HK_MIB) == NULL && errno == ENOMEM);
        CHECK(hak_malloc(hk_limit()) == NULL);
        told.inner++;
    }
    if (told.forks && told.calls == 1) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            told.spare = drop(told.spare, 1);
            void *p = hak_malloc(wanted);
            CHECK(p != NULL);
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    told.spare = drop(told.spare, 1);
    errno = E2BIG;
}

/* A callback that frees enough must make the allocation succeed. Its own refused allocations must not call
 * it again, and it may fork; errno must not change. Without memory to free, ENOMEM. */
static void told_and_freed(bool allocates, bool forks) {
    hak_trim();
    memset(&told, 0, sizeof told);
    told.allocates = allocates;
    told.forks = forks;
    CHECK_EQ(hak_limit_on_reached(free_spare, &told), 0);
    limit_mb(held_mb() + 32);
    for (unsigned i = 0; i < 6; i++)
        told.spare = push(told.spare, hak_malloc(3000000), 3000000);
    const uint64_t before = refused();
    errno = 0;
    void *p = hak_malloc(24 * HK_MIB);
    CHECK(p != NULL && errno == 0);
    CHECK_EQ(told.calls, 1);
    CHECK_EQ(told.wanted, 24 * HK_MIB);
    CHECK_EQ(told.inner, allocates ? 1 : 0);
    CHECK_EQ(refused(), before + (allocates ? 2 : 0));
    /* now there is nothing to free */
    CHECK(hak_malloc(24 * HK_MIB) == NULL && errno == ENOMEM);
    CHECK_EQ(told.calls, 2);
    CHECK(hak_realloc(p, 64 * HK_MIB) == NULL && errno == ENOMEM);
    CHECK_EQ(told.calls, 3);
    CHECK_EQ(hak_limit_on_reached(NULL, NULL), 0);
    CHECK(hak_malloc(24 * HK_MIB) == NULL && errno == ENOMEM);
    CHECK_EQ(told.calls, 3);
    hak_free(p);
    limit_mb(0);
}

static void raise_limit(size_t wanted, void *context) {
    (void)context;
    limit_mb(held_mb() + wanted / HK_MIB + 8);
}

/* A callback that raises the limit must make the allocation succeed. */
static void told_and_raised(void) {
    CHECK_EQ(hak_limit_on_reached(raise_limit, NULL), 0);
    limit_mb(held_mb() + 8);
    void *p = hak_malloc(64 * HK_MIB);
    CHECK(p != NULL);
    hak_free(p);
    CHECK_EQ(hak_limit_on_reached(NULL, NULL), 0);
    limit_mb(0);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 1500, SHARED = 64 };
static _Atomic(void *) cache[SHARED]; /* any thread may free these blocks */
static atomic_uint calls, had;

static void free_cache(size_t wanted, void *context) {
    (void)wanted, (void)context;
    hk_add_seq(&calls, 1u);
    for (unsigned i = 0; i < SHARED; i++)
        hak_free(hk_exchange_seq(&cache[i], NULL));
}

static void *work(void *argument) {
    uint64_t rng = 77 + (uint64_t)(uintptr_t)argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        const size_t n = 1 + chance_below(&rng, chance_below(&rng, 4) == 0 ? 4000000 : 60000);
        void *p = hak_malloc(n);
        CHECK(hk_held() <= hk_limit() + SLACK);
        if (p == NULL)
            continue;
        memset(p, 1, hk_min(n, 4096));
        hk_add_seq(&had, 1u);
        hak_free(hk_exchange_seq(&cache[chance_below(&rng, SHARED)], p));
    }
    return NULL;
}

/* Several threads at the limit: it must hold, the callback must be called, and most requests be met. */
static void threads(void) {
    hak_trim();
    CHECK_EQ(hak_limit_on_reached(free_cache, NULL), 0);
    limit_mb(held_mb() + 24);
    pthread_t ids[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&ids[i], NULL, work, (void *)i), 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(ids[i], NULL), 0);
    CHECK(hk_load_seq(&calls) != 0);
    CHECK(hk_load_seq(&had) > THREADS * ROUNDS / 2);
    free_cache(0, NULL);
    CHECK_EQ(hak_limit_on_reached(NULL, NULL), 0);
    limit_mb(0);
    hak_trim();
    check_held();
}

/* ---- requests that cannot be met in any case ---- */

/* A request for n bytes must be refused without emptying the region cache. */
static void refused_for_nothing(size_t n) {
    const size_t cached = hk_region_cached();
    CHECK(cached != 0);
    CHECK(hak_malloc(n) == NULL);
    CHECK_EQ(hk_region_cached(), cached);
}

/* For a request beyond reach, free memory must not be given back; for one that might succeed, it must. */
static void out_of_reach(void *unused) {
    (void)unused;
    void *block = hak_malloc(3 * HK_MIB);
    CHECK(block != NULL);
    hak_free(block);
    limit_mb(held_mb() + 64);
    refused_for_nothing(hk_limit() + HK_MIB);
    limit_mb(0);
#if HK_DEBUG
    hk_os_fail_after(0);
    refused_for_nothing(hk_held() + 1024 * HK_MIB);
    CHECK(hak_malloc(hk_held()) == NULL);
    hk_os_fail_after(-1);
    CHECK_EQ(hk_region_cached(), 0);
#endif
}

/* A vast request that the system refuses must not make the process count as bounded, nor cost it the flat
 * page map. */
static void out_of_all_reach(void *unused) {
    const size_t gib = (size_t)1 << 30;
    struct rlimit limit;
    (void)unused;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = hk_os_status("VmSize:") + 16 * gib;
    hak_free(hak_malloc(1));
    CHECK(!hk_region_is_bounded() && hk_map_has_flat());
    CHECK(syscall(SYS_prlimit64, 0, RLIMIT_AS, &limit, NULL) == 0);
    limit_mb(100 * 1024);
    set("HAKMEM_ON_LIMIT", "abort"); /* must not abort: the system refuses, not the limit */
    CHECK(hak_malloc(28 * gib) == NULL);
    CHECK(!hk_region_is_bounded() && hk_map_has_flat());
}

/* At the limit, a realloc to a smaller size must keep the block in place; that must not count as a
 * refusal, which would abort. */
static void becomes_smaller(void *unused) {
    void *block = hak_malloc(8 * HK_MIB);
    (void)unused;
    limit_mb(1);
    while (hak_malloc(40000) != NULL)
        continue;
    set("HAKMEM_ON_LIMIT", "abort");
    const uint64_t refused = hk_counted(refused);
    CHECK(hak_realloc(block, 40000) == block);
    CHECK_EQ(hk_counted(refused), refused);
}

/* At the limit, with room in packs but for no slab, small blocks must be served from packs. Magazines may
 * be flushed once for that, not for each such block. */
static void packs_serve_small(void *unused) {
    const unsigned cls = hk_class_of(64);
    void *p, *small[8];
    (void)unused;
    for (unsigned i = 0; i < 8; i++)
        CHECK((small[i] = hak_malloc(64)) != NULL);
    limit_mb(held_mb() + 64);
    node_t *list = fill(NULL, 100000), *next;
    for (; list != NULL; list = next) {
        next = list->next;
        if (list->number % 20 != 0)
            hak_free(list);
    }
    do
        CHECK((p = hak_malloc(4000)) != NULL);
    while (hk_kind_is_class(hk_map_kind(p)));
    for (unsigned i = 0; i < 8; i++)
        hak_free(small[i]);
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    const unsigned held = hk_magazine_count(thread, cls);
    CHECK(held != 0);
    CHECK((p = hak_malloc(4000)) != NULL && !hk_kind_is_class(hk_map_kind(p)));
    CHECK_EQ(hk_magazine_count(thread, cls), held);
    unsigned packed = 0;
    for (size_t align = 2048; align <= 16384; align *= 2)
        for (unsigned i = 0; i < 20; i++) {
            CHECK((p = hak_aligned_alloc(align, 300)) != NULL &&
                  hk_is_aligned((uintptr_t)p, align));
            packed += !hk_kind_is_class(hk_map_kind(p));
        }
    CHECK(packed > 20);
}

/* ---- the end ---- */

static void go_beyond(void *packets) {
    CHECK(dup2(*(int *)packets, STDERR_FILENO) >= 0);
    set("HAKMEM_ON_LIMIT", "abort");
    CHECK_EQ(hak_limit_on_reached(free_spare, &told), 0);
    memset(&told, 0, sizeof told);
    for (unsigned i = 0; i < 3; i++)
        CHECK(hak_malloc(8 * HK_MIB) != NULL);
    CHECK(hak_malloc(40000) != NULL);
    limit_mb(held_mb() + 4);
    hak_free(hak_malloc(100 * HK_MIB));
}

/* HAKMEM_ON_LIMIT=abort must print a summary of the heap and abort. O_DIRECT keeps the pipe's writes
 * apart: all must come in one write, into which no other thread's can fall. */
static void aborts(void) {
    static child_t child;
    static char text[2048];
    int ends[2];
    CHECK_EQ(pipe2(ends, O_DIRECT), 0);
    child_run(&child, go_beyond, &ends[1]);
    close(ends[1]);
    CHECK(read(ends[0], text, sizeof text - 1) > 0);
    close(ends[0]);
    const char *huge = strstr(text, "hakmem: limit: huge: 3 blocks, 25165824 bytes\n");
    const char *large = strstr(text, "\nhakmem: limit: large: 1 blocks, ");
    const char *line = strstr(text, "\nhakmem: fatal: memory limit: ");
    CHECK(huge == text && large > huge && line > large);
    CHECK(strstr(line, ", no room for a block of 104857600\n") != NULL);
    CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
}

static void in_a_child(void (*fn)(void *)) {
    static child_t child;
    child_run(&child, fn, NULL);
    CHECK_TEXT(child.text, "");
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

static void all_of_it(void *unused) {
    (void)unused;
    refused_and_recovered();
    told_and_freed(false, false);
    threads();
}

int main(void) {
    in_a_child(not_bounded_by_a_far_limit);
    aborts();
    in_a_child(out_of_reach);
    in_a_child(packs_serve_small);
    if (!is_emulated("limits of the emulator's own"))
        in_a_child(out_of_all_reach);
    in_a_child(becomes_smaller);
    what_counts();
    refused_and_recovered();
    lowered_and_raised();
    told_and_freed(false, false);
    told_and_freed(true, false);
    told_and_freed(true, true);
    told_and_raised();
    threads();
    in_a_child(all_of_it);
    return 0;
}
