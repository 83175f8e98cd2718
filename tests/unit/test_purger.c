/* The purger while its options change in a running process: it starts and ends when it should, and blocks keep their
 * contents. What it gives back is tested in tests/world/lean_*.c. */
#include "policy/purger.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <threads.h>

#include "backend/region.h"
#include "base/counters.h"
#include "check.h"
#include "config/config.h"
#include "hakmem/hakmem.h"

enum { CYCLES = 60, TOGGLES = 400, DEADLINE_MS = 300000, LIVE = 400 };

static atomic_bool refuses; /* pthread_create() fails */
static atomic_uint created; /* calls that create a thread, refused ones too */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument) {
    __typeof__(&pthread_create) next = (__typeof__(&pthread_create))dlsym(RTLD_NEXT, __func__);
    atomic_fetch_add(&created, 1);
    return atomic_load(&refuses) ? EAGAIN : next(thread, attributes, run, argument);
}

/* Replaced as well: the allocator uses thrd_create() if pthread_create() does not lie near it. */
int thrd_create(thrd_t *thread, thrd_start_t run, void *argument) {
    (void)thread, (void)run, (void)argument;
    atomic_fetch_add(&created, 1);
    return thrd_error;
}

static void set(uint64_t lean, uint64_t decommit, uint64_t target_mb) {
    hk_store_relaxed(&hk_config.lean, lean);
    hk_store_relaxed(&hk_config.lean_decommit, decommit);
    hk_store_relaxed(&hk_config.lean_target_mb, target_mb);
    hk_policy_apply();
}

/* A purger is recognized by its mask: it blocks all signals but those of its own faults. */
static bool is_purger(const char *status) {
    const char *line = strstr(status, "\nSigBlk:");
    uint64_t blocked = line == NULL ? 0 : strtoull(line + strlen("\nSigBlk:"), NULL, 16);
    return (blocked >> (SIGTERM - 1) & 1) != 0 && (blocked >> (SIGSEGV - 1) & 1) == 0;
}

static unsigned purgers(void) {
    unsigned count = 0;
    char path[64], status[4096];
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, status, sizeof status - 1);
        status[n > 0 ? n : 0] = '\0';
        count += is_purger(status);
        if (fd >= 0)
            close(fd);
    }
    closedir(tasks);
    return count;
}

/* Waits: a purger's thread that was just created may not have its mask yet, and is_purger() does not see it. */
static void await(unsigned threads, bool allocate) {
    for (unsigned ms = 0;
         purgers() != threads || (threads == 0 && hk_load_relaxed(&hk_purger_runs)); ms++) {
        CHECK(ms < DEADLINE_MS);
        if (allocate)
            hak_free(hak_malloc(3 * HK_UNIT));
        usleep(1000);
    }
}

/* The allocation that starts the purger has created its thread when it returns, although purgers() may not see it yet. */
static void check_starts_none(uint64_t lean, uint64_t decommit, uint64_t target_mb) {
    const unsigned before = atomic_load(&created);
    set(lean, decommit, target_mb);
    hak_free(hak_malloc(3 * HK_UNIT));
    CHECK_EQ(atomic_load(&created), before);
}

/* With more than the target in use all the time, the purger starts and ends as the options say. */
static void comes_and_goes(void) {
    const unsigned before = atomic_load(&created);
    char *anchor = hak_malloc(20 * HK_MIB);
    CHECK_EQ(atomic_load(&created), before); /* off */
    check_starts_none(0, HK_DECOMMIT_DONTNEED, 1);
    check_starts_none(1, HK_DECOMMIT_DONTNEED, 1000); /* less than the target is in use */
    for (unsigned i = 0; i < CYCLES; i++) {
        set(1, i % 2 ? HK_DECOMMIT_FREE : HK_DECOMMIT_DONTNEED, i % 3);
        await(1, true);
        if (i % 4 == 0) /* time to go to sleep */
            usleep(5000);
        set(i % 8 != 0, HK_DECOMMIT_OFF, 0);
        if (i % 3 == 0)
            await(0, false); /* in other cycles it is wanted again before it has ended */
    }
    await(0, false);
    CHECK(!hk_load_relaxed(&hk_purger_runs));
    hak_free(anchor);
}

/* The purger gives free memory back, and ends when no more than the target is in use. */
static void ends_when_small(void) {
    static char *blocks[64];
    set(1, HK_DECOMMIT_DONTNEED, 4);
    uint64_t before = hk_counted(purge_bytes);
    for (unsigned i = 0; i < 64; i++)
        memset(blocks[i] = hak_malloc(HK_MIB), 1, HK_MIB);
    await(1, true);
    for (unsigned i = 0; i < 64; i++)
        hak_free(blocks[i]);
    await(0, false);
    /* a hostile build keeps hardly any free memory to purge */
    CHECK(hk_counted(purge_bytes) - before >= (HK_HOSTILE ? 1 : 50 * HK_MIB));
    CHECK(hk_region_live() <= 4 * HK_MIB);
    set(1, HK_DECOMMIT_OFF, 0);
}

/* No purger starts in a vfork's child, which shares its parent's memory: the thread would belong to the child, and the
 * parent would take it for its own. */
static void starts_in_no_vfork(void) {
    int status = -1;
    char *anchor = hak_malloc(20 * HK_MIB);
    set(1, HK_DECOMMIT_DONTNEED, 1);
    const pid_t child = vfork();
    if (child == 0) {
        hak_free(hak_malloc(3 * HK_UNIT));
        _exit(hk_load_relaxed(&hk_purger_runs));
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    await(1, true);
    set(1, HK_DECOMMIT_OFF, 0);
    await(0, false);
    hak_free(anchor);
}

static atomic_bool toggling;

static void *churn(void *argument) {
    static _Thread_local char *live[LIVE];
    static _Thread_local size_t bytes[LIVE];
    uint64_t rng = (uint64_t)(uintptr_t)argument;
    while (atomic_load(&toggling)) {
        unsigned i = chance_below(&rng, LIVE);
        if (live[i] != NULL)
            CHECK(live[i][0] == (char)i && live[i][bytes[i] - 1] == (char)i);
        hak_free(live[i]);
        bytes[i] = 1 + chance_below(&rng, chance_below(&rng, 50) == 0 ? 3 * HK_UNIT : 20000);
        live[i] = hak_malloc(bytes[i]);
        CHECK(live[i] != NULL);
        live[i][0] = live[i][bytes[i] - 1] = (char)i;
    }
    for (unsigned i = 0; i < LIVE; i++)
        hak_free(live[i]);
    return NULL;
}

/* After the options changed many times while threads allocate, a purger can still start, and end. */
static void survives_toggling(void) {
    pthread_t threads[2];
    uint64_t rng = 7;
    atomic_store(&toggling, true);
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < TOGGLES; i++) {
        set(chance_below(&rng, 4) != 0, chance_below(&rng, 3), chance_below(&rng, 3) * 20);
        usleep(chance_below(&rng, 2000));
    }
    set(1, HK_DECOMMIT_DONTNEED, 0);
    await(1, false); /* the threads allocate */
    set(1, HK_DECOMMIT_OFF, 0);
    await(0, false);
    atomic_store(&toggling, false);
    for (unsigned i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    await(
        0,
        false); /* one more may have started: by a thread that had read the options before the last change */
}

/* ---- no thread can be created for a while ---- */

/* While there is no purger, a thread that frees gives free memory back, from inside slabs too, although there are
 * other threads. */
static void frees_beside_others(void) {
    enum { BLOCKS = 16384, KEPT = 32, BYTES = 4000 };
    static char *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        memset(blocks[i] = hak_malloc(BYTES), 1, BYTES);
    const uint64_t before = hk_counted(purge_bytes);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i % KEPT != 0)
            hak_free(blocks[i]);
    for (unsigned ms = 0; hk_counted(purge_bytes) - before < BLOCKS / 2 * BYTES; ms++) {
        CHECK(ms < DEADLINE_MS);
        hak_free(memset(hak_malloc(HK_MIB), 1, HK_MIB));
        usleep(1000);
    }
    for (unsigned i = 0; i < BLOCKS; i += KEPT)
        hak_free(blocks[i]);
}

static void is_tried_again(void) {
    char *anchor = hak_malloc(20 * HK_MIB);
    set(1, HK_DECOMMIT_DONTNEED, 1);
    atomic_store(&refuses, true);
    const unsigned before = atomic_load(&created);
    hak_free(hak_malloc(3 * HK_UNIT));
    CHECK_EQ(atomic_load(&created), before + 1);
    CHECK(!hk_load_relaxed(&hk_purger_runs));
    frees_beside_others();
    atomic_store(&refuses, false);
    await(1, true);
    set(1, HK_DECOMMIT_OFF, 0);
    await(0, false);
    hak_free(anchor);
}

static atomic_bool is_idle; /* has allocated, and does nothing more */

static void *idle(void *unused) {
    sigset_t all; /* its own faults too, unlike a purger: is_purger() */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    hak_free(hak_malloc(1));
    for (atomic_store(&is_idle, true);;)
        pause();
    return unused;
}

int main(void) {
    if (is_emulated("what /proc says of threads"))
        return UNIT_SKIPPED;
    pthread_t company; /* a process of one thread has no purger */
    hak_free(hak_malloc(1));
    CHECK(pthread_create(&company, NULL, idle, NULL) == 0);
    while (!atomic_load(&is_idle))
        usleep(1000);
    set(1, HK_DECOMMIT_OFF, 0);
    await(0, false); /* it is on by default */
    comes_and_goes();
    ends_when_small();
    starts_in_no_vfork();
    survives_toggling();
    is_tried_again();
    return 0;
}
