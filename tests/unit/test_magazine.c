/* Magazines: what one thread may hold back stays within its budget, however it allocates, the
 * option is honoured, and a flush gives everything back. */
#include <pthread.h>

#include "check.h"
#include "config/config.h"
#include "config/table.h"
#include "front/magazine.h"
#include "hakmem/hakmem.h"

static hk_thread_t *own_record(void) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    CHECK(thread != NULL && !thread->shared);
    return thread;
}

static void *const *slots_of(const hk_thread_t *thread, unsigned cls) {
    return hk_magazine_slots((hk_thread_t *)(uintptr_t)thread, cls);
}

/* Blocks in the magazine, read from its slots. */
static unsigned held(const hk_thread_t *thread, unsigned cls) {
    unsigned n = 0;
    for (void *const *top = hk_load_relaxed(&thread->cache.top[cls]); *top != NULL; top--)
        n++;
    CHECK_EQ(hk_magazine_count(thread, cls), n);
    return n;
}

/* The bytes of blocks that the thread's magazines may hold, now and later; each bin is checked on
 * the way. */
static size_t pinned(const hk_thread_t *thread) {
    size_t bytes = 0;
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        unsigned capacity = thread->magazines[cls].capacity;
        CHECK(capacity <= hk_classes[cls].magazine);
        CHECK(held(thread, cls) <= capacity);
        CHECK(capacity == 0 || thread->cache.limit[cls] == slots_of(thread, cls) + capacity);
        bytes += (size_t)capacity * hk_classes[cls].size;
    }
    return bytes;
}

/* Many blocks in and out, several times: the class's magazine grows as far as it may. */
static void drive(unsigned cls) {
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

static void check_budget(const char *order) {
    size_t bytes = pinned(own_record()), allowed = hk_option(tcache_kb) * HK_KIB;
    dprintf(STDOUT_FILENO, "%s: magazines may hold %zu bytes, %zu are allowed\n", order, bytes,
            allowed);
    CHECK(bytes <= allowed);
}

static void *small_first(void *unused) {
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        drive(cls);
    check_budget("small classes first");
    return unused;
}

static void *large_first(void *unused) {
    for (unsigned cls = HK_CLASS_FIXED - 1; cls >= 1; cls--)
        drive(cls);
    check_budget("large classes first");
    return unused;
}

/* One class alone reaches its full magazine: the budget is there to be used. */
static void *one_class(void *unused) {
    unsigned cls = hk_class_of(256);
    drive(cls);
    CHECK_EQ(own_record()->magazines[cls].capacity, hk_classes[cls].magazine);
    CHECK_EQ(pinned(own_record()) / hk_classes[cls].size >= hk_classes[cls].magazine, 1);
    return unused;
}

static void *flush_empties(void *unused) {
    const unsigned last = hk_class_of(256); /* any budget has room for these */
    for (unsigned cls = 1; cls <= last; cls++)
        drive(cls);
    for (unsigned cls = 1; cls <= last; cls++)
        CHECK(held(own_record(), cls) != 0);
    size_t active = hk_pool_stats().active;
    hk_thread_t *thread = hk_thread_enter();
    CHECK(thread == own_record());
    hk_thread_flush(thread);
    hk_thread_leave(thread);
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        CHECK_EQ(held(thread, cls), 0);
    CHECK(hk_pool_stats().active < active);
    return unused;
}

/* In a thread of a process of its own: no record is inherited, with magazines that have grown
 * already. */
static void in_new_thread(void *argument) {
    void *(*fn)(void *);
    memcpy(&fn, argument, sizeof fn);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fn, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void check_passes(void (*fn)(void *), void *argument) {
    static child_t child;
    child_run(&child, fn, argument);
    dprintf(STDOUT_FILENO, "%s", child.text);
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

static void exec_with_option(void *kib) {
    static char self[] = "/proc/self/exe";
    setenv("HAKMEM_TCACHE_KB", kib, 1);
    execl(self, "test_magazine", kib, (char *)NULL);
    _exit(127);
}

int main(int argc, char **argv) {
    void *(*orders[])(void *) = {small_first, large_first, one_class, flush_empties};
    if (argc == 2) { /* run by exec_with_option: the main thread's budget, and a later one's */
        CHECK_EQ(hk_option(tcache_kb), strtoull(argv[1], NULL, 10));
        small_first(NULL);
        in_new_thread(&orders[1]);
        return 0;
    }
    for (unsigned i = 0; i < sizeof orders / sizeof orders[0]; i++)
        check_passes(in_new_thread, &orders[i]);
    const uint64_t budgets[] = {1000, 16384, hk_options[HK_OPTION_tcache_kb].least};
    for (unsigned i = 0; i < 3; i++) {
        char kib[24];
        snprintf(kib, sizeof kib, "%" PRIu64, budgets[i]);
        check_passes(exec_with_option, kib);
    }
    return 0;
}
