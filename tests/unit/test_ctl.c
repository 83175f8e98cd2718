/* hak_ctl(): its answers and refusals, two threads that use it at once, and its use around forks. */
#include <errno.h>
#include <pthread.h>

#include "api/asked.h"
#include "check.h"
#include "config/table.h"
#include "front/thread_own.h"
#include "front/watched.h"
#include "hakmem/hakmem.h"
#include "policy/look.h"

#define TARGET "HAKMEM_SS_MEM_LEAN_TARGET_MB"
#define DECOMMIT "HAKMEM_SS_MEM_LEAN_DECOMMIT"

static const char *value_of(const char *name) {
    static char text[256];
    memset(text, '#', sizeof text);
    CHECK_EQ(hak_ctl(name, NULL, text, sizeof text), 0);
    return text;
}

static void answers(void) {
    char before[8];
    CHECK_TEXT(value_of("HAKMEM_PROFILE"), "balanced");
    CHECK_TEXT(value_of("HAKMEM_SS_MEM_LEAN"), "1");
    CHECK_TEXT(value_of("HAKMEM_PROOF"), "");
    CHECK_EQ(hak_ctl(DECOMMIT, "OFF", NULL, 0), 0);
    errno = E2BIG;
    CHECK_EQ(hak_ctl(DECOMMIT, "FREE", before, sizeof before), 0);
    CHECK_TEXT(before, "OFF");
    CHECK_EQ(hk_option(lean_decommit), HK_DECOMMIT_FREE);
    CHECK_EQ(hk_option_origin(lean_decommit), HK_FROM_RUN_TIME);
    CHECK_EQ(hak_ctl(DECOMMIT, "DONTNEED", NULL, 0), 0);
    CHECK_TEXT(value_of(DECOMMIT), "DONTNEED");
    CHECK_EQ(hak_ctl(DECOMMIT, "OFF", NULL, 0), 0);
    CHECK_EQ(hak_ctl(DECOMMIT, NULL, NULL, 0), 0);
    CHECK_EQ(errno, E2BIG);
}

static void refusals(void) {
    char room[4];
    CHECK_EQ(hak_ctl("HAKMEM_NO_SUCH_OPTION", NULL, room, sizeof room), ENOENT);
    CHECK_EQ(hak_ctl("", "1", NULL, 0), ENOENT);
    CHECK_EQ(hak_ctl("hakmem_ss_mem_lean", "1", NULL, 0), ENOENT);
    CHECK_EQ(hak_ctl("HAKMEM_TCACHE_KB", "128", NULL, 0), EPERM);
    CHECK_EQ(hak_ctl("HAKMEM_PROOF", "/tmp/x", NULL, 0), EPERM);
    static const char *const wrong[] = {"", "free", "OFF ", "OFF|FREE", "3"};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_EQ(hak_ctl(DECOMMIT, wrong[i], NULL, 0), EINVAL);
    CHECK_EQ(hak_ctl(TARGET, "1048577", NULL, 0), EINVAL);
    CHECK_EQ(hak_ctl(TARGET, "-1", NULL, 0), EINVAL);
    CHECK_EQ(hk_option(lean_decommit), HK_DECOMMIT_OFF);
    /* no room for the old value: nothing is changed and nothing written */
    CHECK_EQ(hak_ctl(TARGET, "5000", NULL, 0), 0);
    memcpy(room, "abc", 4);
    CHECK_EQ(hak_ctl(TARGET, "7", room, sizeof room), ERANGE);
    CHECK_TEXT(room, "abc");
    CHECK_EQ(hk_option(lean_target_mb), 5000);
    CHECK_EQ(hak_ctl(TARGET, NULL, room, 0), ERANGE);
    CHECK_EQ(hak_ctl("HAKMEM_PROOF", NULL, room, 0), ERANGE);
    CHECK_EQ(hak_ctl(TARGET, "999", NULL, 0), 0);
    CHECK_EQ(hak_ctl(TARGET, "7", room, sizeof room), 0);
    CHECK_TEXT(room, "999");
}

/* Wrong arguments must get an error, not a crash. */
static void bad_arguments(void) {
    char room[8] = "abc";
    CHECK_EQ(hak_ctl(NULL, NULL, NULL, 0), EINVAL);
    CHECK_EQ(hak_ctl(NULL, "1", room, sizeof room), EINVAL);
    CHECK_TEXT(room, "abc");
    CHECK_EQ(hak_ctl(TARGET, NULL, NULL, 100), 0);
    CHECK_EQ(hak_options_print(STDOUT_FILENO, "yaml"), EINVAL);
    CHECK_EQ(hak_options_print(STDOUT_FILENO, ""), EINVAL);
    CHECK_EQ(hak_options_print(STDOUT_FILENO, NULL), EINVAL);
    CHECK_EQ(hak_options_print(-1, "json"), EBADF);
    CHECK_EQ(hak_options_print(-1, "text"), EBADF);
    errno = E2BIG;
    CHECK_EQ(hak_usable_size(NULL), 0);
    hak_free(NULL);
    CHECK_EQ(errno, E2BIG);
    CHECK(hak_aligned_alloc(0, 100) == NULL && errno == EINVAL);
    CHECK(hak_aligned_alloc(48, 100) == NULL && errno == EINVAL);
    CHECK(hak_aligned_alloc((size_t)1 << 63, 100) == NULL && errno == ENOMEM);
    CHECK(hak_calloc(SIZE_MAX, 2) == NULL && errno == ENOMEM);
    CHECK(hak_malloc(SIZE_MAX) == NULL && errno == ENOMEM);
    void *block = hak_realloc(NULL, 0); /* as hak_malloc(0): a block */
    CHECK(block != NULL);
    CHECK(hak_realloc(block, SIZE_MAX) == NULL && errno == ENOMEM);
    CHECK(hak_realloc(block, 0) == NULL);
}

/* Every option that may change can be changed; no other can. */
static void every_option(void) {
    for (unsigned i = 0; i < HK_OPTION_COUNT; i++) {
        char before[256];
        CHECK_EQ(hak_ctl(hk_options[i].env, NULL, before, sizeof before), 0);
        int expected = hk_options[i].when == HK_WHEN_RUNTIME && hk_option_built(i) ? 0 : EPERM;
        CHECK_EQ(hak_ctl(hk_options[i].env, before, NULL, 0), expected);
        CHECK_EQ(hk_origins[i], expected == 0 ? HK_FROM_RUN_TIME : HK_FROM_DEFAULT);
    }
}

/* ---- two threads ---- */

enum { CHANGES = 20000, FIRST = 100 };
static unsigned char seen[FIRST + 2 * CHANGES];

/* Sets each of its numbers once, and counts the previous values. Fails later if a value was returned
 * twice, or never: set and get must be one atomic step. */
static void *change(void *first) {
    for (unsigned i = 0; i < CHANGES; i++) {
        char value[16], before[16];
        snprintf(value, sizeof value, "%u", *(unsigned *)first + i);
        CHECK_EQ(hak_ctl(TARGET, value, before, sizeof before), 0);
        __atomic_fetch_add(&seen[atoi(before)], 1, __ATOMIC_RELAXED);
        hak_free(hak_malloc(i % 4000));
    }
    return NULL;
}

static void two_threads(void) {
    CHECK_EQ(hak_ctl(TARGET, "1", NULL, 0), 0);
    pthread_t threads[2];
    unsigned first[2] = {FIRST, FIRST + CHANGES};
    for (unsigned i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, change, &first[i]) == 0);
    for (unsigned i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    seen[atoi(value_of(TARGET))]++;
    CHECK_EQ(seen[1], 1);
    for (unsigned i = FIRST; i < FIRST + 2 * CHANGES; i++)
        CHECK_EQ(seen[i], 1);
}

/* ---- one thread overtakes another: the process must end up in the state that the option says ---- */

static void *begin_profile(void *lock) {
    while (lock != NULL && !hk_lock_is_taken(lock))
        usleep(1000);
    CHECK_EQ(hk_config_control("HAKMEM_PROF", "1", NULL, 0), 0);
    CHECK(hk_profile_apply());
    return NULL;
}

/* Switches profiles off while another thread, about to switch them on, waits for `lock`. */
static void overtaken_at(hk_lock_t *lock) {
    pthread_t other;
    CHECK(pthread_create(&other, NULL, begin_profile, lock) == 0);
    hk_lock(lock);
    while (hk_load_relaxed(&lock->sleepers) == 0)
        usleep(1000);
    hk_store_relaxed(&hk_config.prof, 0u);
    if (lock != &hk_writing)
        hk_profile_apply();
    hk_unlock(lock);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK_EQ(hk_watched(), 0);
}

static void overtaken(void) {
    if (HK_FAST)
        return;
    overtaken_at(&hk_writing);
    overtaken_at(&hk_registry);
    begin_profile(NULL);
    CHECK(hk_watched() != 0);
    CHECK_EQ(hak_ctl("HAKMEM_PROF", "0", NULL, 0), 0);
    CHECK_EQ(hk_watched(), 0);
}

static atomic_bool is_ready, is_refused;

static void *change_late(void *unused) {
    hak_free(hak_malloc(1));
    hk_store_seq(&is_ready, true);
    while (!hk_lock_is_taken(&hk_registry))
        usleep(1000);
    CHECK_EQ(hak_ctl(TARGET, "6", NULL, 0), EBUSY);
    hk_store_seq(&is_refused, true);
    return unused;
}

/* A fork that begins during a change, and lasts, refuses it: the thread must not wait for the lock that
 * the fork holds, as it may have what the fork waits for (alarm). */
static void fork_begins_amid_change(void) {
    pthread_t other;
    alarm(600);
    CHECK(pthread_create(&other, NULL, change_late, NULL) == 0);
    while (!hk_load_seq(&is_ready))
        usleep(1000);
    hk_lock(&hk_registry); /* the other thread waits for it in the middle of the change */
    while (hk_load_relaxed(&hk_registry.sleepers) == 0)
        usleep(1000);
    hk_store_seq(&hk_forking, true);
    hk_store_relaxed(&hk_fork_waits, true);
    hk_lock(&hk_look_lock);
    hk_unlock(&hk_registry);
    while (!hk_load_seq(&is_refused))
        usleep(1000);
    hk_unlock(&hk_look_lock);
    hk_store_relaxed(&hk_fork_waits, false);
    hk_store_seq(&hk_forking, false);
    CHECK(pthread_join(other, NULL) == 0);
    alarm(0);
    CHECK_EQ(hak_ctl(TARGET, "1", NULL, 0), 0);
}

/* While a fork prevents it from telling the threads, the end of a profile must be applied later. Until
 * then they must still count down to the next sample, or each block would be one, apart from its
 * class. */
static void ends_later(void) {
    enum { BLOCKS = 100 };
    void *blocks[BLOCKS];
    unsigned among_others = 0;
    if (HK_FAST)
        return;
    begin_profile(NULL);
    CHECK_EQ(hk_watched(), HK_WATCHED_SAMPLES);
    hk_store_seq(&hk_forking, true); /* as during a fork: no thread can enter its record */
    hk_store_relaxed(&hk_fork_waits, true);
    CHECK_EQ(hk_config_control("HAKMEM_PROF", "0", NULL, 0), 0);
    CHECK(!hk_profile_apply());
    hk_store_relaxed(&hk_fork_waits, false);
    hk_store_seq(&hk_forking, false);
    CHECK_EQ(hk_watched(), HK_WATCHED_SAMPLES);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_malloc(100);
        among_others += hk_kind_is_class(hk_map_kind(blocks[i]));
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    CHECK(among_others > BLOCKS / 2);
    CHECK(hk_profile_apply());
    CHECK_EQ(hk_watched(), 0);
}

/* In the child of a fork during another thread's change: a change must not hang (alarm) or be lost. */
static void child_changes(void *unused) {
    (void)unused;
    alarm(200);
    CHECK_EQ(hak_ctl(TARGET, "3", NULL, 0), 0);
    CHECK_TEXT(value_of(TARGET), "3");
}

static atomic_bool enough;

static void *change_on_and_on(void *unused) {
    for (unsigned i = 0; !enough; i++)
        CHECK_EQ(hak_ctl(TARGET, i % 2 == 0 ? "20" : "30", NULL, 0), 0);
    return unused;
}

static void forks_amid_changes(void) {
    static child_t child;
    pthread_t thread;
    hak_free(hak_malloc(100)); /* installs the fork handlers */
    CHECK(pthread_create(&thread, NULL, change_on_and_on, NULL) == 0);
    for (unsigned i = 0; i < 200; i++) {
        child_run(&child, child_changes, NULL);
        CHECK_TEXT(child.text, "");
        CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    }
    enough = true;
    CHECK(pthread_join(thread, NULL) == 0);
}

#ifdef __GLIBC__
/* Fork handlers registered before hakmem's run while hakmem holds the other threads: hak_ctl must
 * return EBUSY there, not deadlock. Without .preinit_array (musl) none can be registered earlier. */
static bool set_in_handlers;
static unsigned refused;

static void set(void) {
    if (!set_in_handlers)
        return;
    CHECK_EQ(hak_ctl(TARGET, "4", NULL, 0), EBUSY);
    CHECK_EQ(hak_ctl(TARGET, NULL, NULL, 0), EBUSY);
    refused++;
}

/* Another thread, for which a fork handler waits, must get EBUSY too: if it waited for the fork's end,
 * neither would go on. */
static atomic_bool ready, lasts, told;

static void hear_nothing(size_t wanted, void *unused) { (void)wanted, (void)unused; }

static void *ask(void *unused) {
    hak_stats_t stats = {.size = sizeof stats};
    hak_free(hak_malloc(100)); /* gets a record, whose gate the fork holds */
    for (ready = true; !lasts;)
        usleep(1000);
    CHECK_EQ(hak_ctl(TARGET, "4", NULL, 0), EBUSY);
    CHECK(hak_stats_get(&stats) == -1 && errno == EBUSY);
    CHECK(hak_limit_on_reached(hear_nothing, NULL) == -1 && errno == EBUSY);
    if (!HK_FAST) {
        CHECK_EQ(hk_config_control("HAKMEM_PROF", "1", NULL, 0), 0);
        CHECK(!hk_profile_apply());
    }
    told = true;
    return unused;
}

static void set_and_wait(void) {
    set();
    for (lasts = set_in_handlers; lasts && !told;)
        usleep(1000);
}

static void register_early(int argc, char **argv, char **envp) {
    (void)argc, (void)argv, (void)envp;
    pthread_atfork(set_and_wait, set, set);
}
__attribute__((section(".preinit_array"),
               used)) static void (*const preinit)(int, char **, char **) = register_early;

static void count_refusals(void *unused) {
    (void)unused;
    CHECK_EQ(refused, 2);
}

/* Both threads must be refused in all handlers, and hak_ctl must work again after the fork. */
static void not_in_a_fork_handler(void) {
    static child_t child;
    pthread_t other;
    alarm(600);
    CHECK(pthread_create(&other, NULL, ask, NULL) == 0);
    while (!ready)
        usleep(1000);
    set_in_handlers = true;
    child_run(&child, count_refusals, NULL);
    set_in_handlers = false;
    CHECK_TEXT(child.text, "");
    CHECK_EQ(refused, 2);
    CHECK(pthread_join(other, NULL) == 0);
    if (HK_FAST)
        return;
    begin_profile(NULL); /* the threads could not be told of it during the fork */
    CHECK(hk_watched() != 0);
    CHECK_EQ(hak_ctl("HAKMEM_PROF", "0", NULL, 0), 0);
    CHECK_EQ(hk_watched(), 0);
}
#endif

int main(void) {
    every_option();
    answers();
    refusals();
    bad_arguments();
    two_threads();
    overtaken();
    fork_begins_amid_change();
    ends_later();
    forks_amid_changes();
#ifdef __GLIBC__
    not_in_a_fork_handler();
#endif
    return 0;
}
