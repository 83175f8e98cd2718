// lean_thread CASE: when the thread that gives memory back exists, and that nothing of the program
// runs on it.
#include "lean.h"

#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

enum { PEAK = 40 << 20, SMALL = 2 << 20, OLD_MS = 10 };

static void grow_and_shrink(size_t bytes) {
    heap_t heap = heap_grow(bytes, 5);
    heap_check(&heap);
    heap_free(&heap);
}

// HAKMEM_SS_MEM_LEAN_DECOMMIT=OFF, or HAKMEM_SS_MEM_LEAN=0: never.
static void absent(void) {
    have_company();
    for (int round = 0; round < 20; round++) {
        grow_and_shrink(round < 5 ? PEAK : SMALL);
        CHECK(tasks_now().threads == 2, "a thread has been started");
        sleep_ms(10);
    }
}

// A target that the process never reaches.
static void small(void) {
    have_company();
    for (int round = 0; round < 20; round++) {
        grow_and_shrink(SMALL);
        CHECK(tasks_now().threads == 2, "a thread has been started");
        sleep_ms(10);
    }
}

// A program that has one thread keeps to it, and its memory is back as soon as it is freed.
static void alone(void) {
    size_t before = kept_bytes();
    for (int round = 0; round < 2; round++) {
        heap_t heap = heap_grow(PEAK, 5);
        size_t full = kept_bytes();
        CHECK(full - before > (size_t)PEAK * 9 / 10, "%zu MiB", (full - before) / MIB);
        heap_free(&heap);
        size_t after = kept_bytes();
        CHECK(after - before < (full - before) / 4, "%zu of %zu MiB are kept",
              (after - before) / MIB, (full - before) / MIB);
        CHECK(tasks_now().threads == 1, "a thread has been started");
    }
}

// So is what lies scattered, as far as whole pages are free: nine of ten blocks go, in no order, and of their
// pages more than half.
static void scattered(void) {
    enum { BYTES = 800, BLOCKS = PEAK / BYTES };
    static char *blocks[BLOCKS];
    size_t before = kept_bytes();
    for (int i = 0; i < BLOCKS; i++)
        memset(blocks[i] = malloc(BYTES), 1, BYTES);
    size_t full = kept_bytes();
    for (int i = 0; i < BLOCKS;
         i++) // 9973 and BLOCKS have no common divisor, nor 10 and what is left
        if (i % 10 != 0)
            free(blocks[(long)i * 9973 % BLOCKS]);
    size_t after = kept_bytes();
    CHECK(after - before < (full - before) / 4 * 3, "%zu of %zu MiB are kept",
          (after - before) / MIB, (full - before) / MIB);
    CHECK(tasks_now().threads == 1, "a thread has been started");
}

static void *never_allocates(void *unused) {
    for (;;)
        pause();
    return unused;
}

// Nor does one whose only other thread never allocates have to wait for its next call: it has a purger.
static void beside(void) {
    pthread_t thread;
    size_t before = kept_bytes();
    CHECK(pthread_create(&thread, NULL, never_allocates, NULL) == 0, "pthread_create");
    heap_t heap = heap_grow(PEAK, 5);
    await_purger(true);
    heap_free(&heap);
    await_kept(before + PEAK / 4, "beside a thread that never allocates");
}

// What a program that stays as large as it is does not use again comes back too, while it goes on.
static void old(void) {
    heap_t stays = heap_grow(2 * PEAK, 5), goes = heap_grow(PEAK, 7);
    size_t full = kept_bytes();
    heap_check(&goes);
    const long long start = now_ms();
    for (size_t i = 0; i < goes.count; i++)
        free(goes.blocks[i]);
    free(goes.blocks);
    // where this takes longer than there is between two looks, what was freed first may be old by now
    const bool at_once = now_ms() - start < OLD_MS;
    CHECK(!at_once || kept_bytes() > full - PEAK / 4,
          "it comes back at once: this test shows nothing");
    for (long ms = 0; kept_bytes() > full - PEAK / 4 * 3; ms += POLL_MS) {
        CHECK(ms < DEADLINE_MS, "%zu of %zu MiB are kept", kept_bytes() / MIB, full / MIB);
        grow_and_shrink(SMALL);
        sleep_ms(POLL_MS);
    }
    heap_check(&stays);
    CHECK(tasks_now().threads == 1, "a thread has been started");
}

// Blocks that fill a page of their last 64 KiB, and stay where longer ones were: the rest of these comes back while the program goes on.
static void tails(void) {
    enum { BLOCKS = 400, FULL = 128 << 10, KEPT = (64 << 10) + 300 };
    static char *blocks[BLOCKS];
    const size_t before = kept_bytes();
    for (int i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = malloc(FULL)) != NULL && memset(blocks[i], i, FULL), "malloc");
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        CHECK((blocks[i] = malloc(KEPT)) != NULL, "malloc");
        memset(blocks[i], i, malloc_usable_size(blocks[i]));
    }
    for (long ms = 0; kept_bytes() > before + (size_t)BLOCKS * KEPT / 2 * 3; ms += POLL_MS) {
        CHECK(ms < DEADLINE_MS, "%zu MiB are kept", (kept_bytes() - before) / MIB);
        grow_and_shrink(SMALL);
        sleep_ms(POLL_MS);
    }
    for (int i = 0; i < BLOCKS; i++) {
        const size_t usable = malloc_usable_size(blocks[i]);
        CHECK(usable >= KEPT && blocks[i][0] == (char)i && blocks[i][usable - 1] == (char)i &&
                  memcmp(blocks[i], blocks[i] + 1, usable - 1) == 0,
              "block %d", i);
    }
}

static void tails_beside(void) {
    have_company();
    tails();
}

// What comes and goes more slowly than this is forgotten in between: rounds that have taken so long show nothing.
enum { FORGOTTEN_MS = 10000 };

// One whose memory comes and goes keeps it in the end: from the third time on nothing is brought in
// anew.
static void breathes(void) {
    const long long start = now_ms();
    struct rusage usage;
    long faults = 0;
    for (int round = 0; round < 8; round++) {
        grow_and_shrink(PEAK);
        CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
        faults = usage.ru_minflt - faults;
        if (round == 7)
            CHECK(faults < PEAK / 4096 / 4 || now_ms() - start >= FORGOTTEN_MS, "%ld faults",
                  faults);
        faults = usage.ru_minflt;
    }
}

// So does one that frees in no order, whose pages go one by one, and slab by slab what is left.
static void breathes_in_pieces(void) {
    enum { BYTES = 800, BLOCKS = PEAK / BYTES, ROUNDS = 8 };
    static char *blocks[BLOCKS];
    struct rusage usage;
    long faults = 0;
    const long long start = now_ms();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++)
            memset(blocks[i] = malloc(BYTES), 1, BYTES);
        for (int i = 0; i < BLOCKS; i++) // 9973 and BLOCKS have no common divisor
            free(blocks[(long)i * 9973 % BLOCKS]);
        CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
        faults = usage.ru_minflt - faults;
        CHECK(round < ROUNDS - 1 || faults < PEAK / 4096 / 4 || now_ms() - start >= FORGOTTEN_MS,
              "%ld faults", faults);
        faults = usage.ru_minflt;
    }
}

// So does one that frees huge blocks, more than the cache of freed ranges keeps without that; and where its blocks are a little shorter, though they
// take as many units, it has less.
static void breathes_in_huge_blocks(void) {
    enum { ROUNDS = 8, BLOCKS = 40 };
    static const size_t sizes[] = {6 * MIB - 65536, 5 * MIB + 65536};
    char *blocks[BLOCKS];
    struct rusage usage;
    long faults = 0;
    const long long start = now_ms();
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0, "prctl"); // a fault is a page
    for (int round = 0; round < ROUNDS; round++) {
        const size_t bytes = sizes[round % 2];
        for (int i = 0; i < BLOCKS; i++)
            memset(blocks[i] = malloc(bytes), 1, bytes);
        const size_t full = kept_bytes();
        for (int i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
        faults = usage.ru_minflt - faults;
        CHECK(full < BLOCKS * bytes + 24 * MIB, "%zu MiB have memory in round %d", full / MIB,
              round);
        CHECK(round < ROUNDS - 1 || faults < BLOCKS * 5 * 256 / 4 ||
                  now_ms() - start >= FORGOTTEN_MS,
              "%ld faults", faults);
        faults = usage.ru_minflt;
    }
}

// A table that is mostly empty has no more memory than that takes, though what it is made of had been filled; and it is empty.
static void empty_tables(void) {
    enum { BYTES = 8 * MIB + 100, STEP = 1 << 20, ROUNDS = 20 };
    const size_t before = kept_bytes();
    for (int round = 0; round < ROUNDS; round++) {
        char *filled = round % 5 == 0 ? malloc(BYTES) : NULL;
        if (filled != NULL)
            memset(filled, 1, BYTES);
        free(filled);
        char *table = calloc(1, BYTES);
        for (size_t i = 0; i < BYTES; i++)
            CHECK(table[i] == 0, "byte %zu in round %d", i, round);
        table[round] = table[BYTES - 1] = 1;
        for (size_t i = round < ROUNDS / 2 ? STEP / 2 : STEP; i < BYTES; i += STEP)
            table[i] = 1;
        // the first one behind a block that was filled is written over
        CHECK(round % 5 == 0 || kept_bytes() < before + 4 * MIB, "%zu MiB in round %d",
              (kept_bytes() - before) / MIB, round);
        free(table);
    }
}

// It is there as long as the process is large, ends by itself, and comes again.
static void ends(void) {
    enum { BLOCKS = PEAK >> 20 };
    char *blocks[BLOCKS];
    have_company();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < BLOCKS; i++)
            memset(blocks[i] = malloc(MIB), 1, MIB);
        await_purger(true);
        CHECK(tasks_now().threads == 3, "%u threads", tasks_now().threads);
        for (int i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        await_purger(false);
        // as it ends the C library blocks all signals, and it looks like no purger any more
        for (long ms = 0; tasks_now().threads != 2; ms += POLL_MS) {
            CHECK(ms < DEADLINE_MS, "%u threads", tasks_now().threads);
            sleep_ms(POLL_MS);
        }
    }
}

// It does not come and go in a process that stays as it is: less than the target of 8 MiB is in
// use, and less than that is kept for reuse, but not less than that is both together.
static void steady(void) {
    enum { TURNS = 120 };
    char *kept = malloc(6 * MIB), *used = malloc(2 * MIB + 1);
    free(kept);
    pid_t last = 0;
    unsigned started = 0;
    have_company();
    for (int i = 0; i < TURNS; i++) {
        grow_and_shrink(400000);
        pid_t now = tasks_now().purger;
        started += now != 0 && now != last;
        last = now != 0 ? now : last;
        sleep_ms(POLL_MS);
    }
    free(used);
    CHECK(started <= 1, "it was started %u times in %d ms", started, TURNS * POLL_MS);
}

static atomic_int handled_by;

static void on_signal(int number) {
    (void)number;
    atomic_store(&handled_by, (int)syscall(SYS_gettid));
}

// It takes those of the C library, by which all threads change their user, and who changes it waits for each.
static void takes_the_c_librarys(pid_t purger) {
    char path[64], status[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", purger);
    CHECK(read_file(path, status, sizeof status) != 0, "%s", path);
    CHECK((blocked_signals(status) >> (32 - 1) & 3) == 0, "it blocks %llx",
          blocked_signals(status));
    CHECK(setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1) == 0, "setresuid: %s", strerror(errno));
}

// Nobody but the purger could take the signals; it does not.
static void signals(void) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGALRM, SIGUSR1, SIGPROF, SIGCHLD};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    sigset_t blocked, pending;
    have_company();
    heap_t heap = heap_grow(PEAK, 5);
    await_purger(true);
    takes_the_c_librarys(tasks_now().purger);
    sigemptyset(&blocked);
    for (int i = 0; i < NUMBERS; i++) {
        CHECK(signal(numbers[i], on_signal) != SIG_ERR, "signal");
        sigaddset(&blocked, numbers[i]);
    }
    CHECK(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0, "pthread_sigmask");
    for (int i = 0; i < NUMBERS; i++)
        CHECK(kill(getpid(), numbers[i]) == 0, "kill");
    heap_free(&heap); // it works
    sleep_ms(300);
    CHECK(atomic_load(&handled_by) == 0, "a handler ran on thread %d of process %d",
          atomic_load(&handled_by), getpid());
    CHECK(sigpending(&pending) == 0, "sigpending");
    for (int i = 0; i < NUMBERS; i++)
        CHECK(sigismember(&pending, numbers[i]) == 1, "signal %d is not pending", numbers[i]);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &blocked, NULL) == 0, "pthread_sigmask");
    CHECK(atomic_load(&handled_by) == getpid(), "handled by %d", atomic_load(&handled_by));
}

// It is an ordinary thread in a process with real-time priority. That is what this program becomes when it calls itself.
static void scheduling(void) {
    const struct sched_param parameter = {.sched_priority = 3};
    if (sched_getscheduler(0) != SCHED_FIFO) {
        if (sched_setscheduler(0, SCHED_FIFO, &parameter) != 0)
            world_skip("real-time priorities are not permitted here");
        execl("/proc/self/exe", "lean_thread", "scheduling", (char *)NULL);
        CHECK(false, "execl: %s", strerror(errno));
    }
    have_company();
    heap_t heap = heap_grow(PEAK, 5);
    await_purger(true);
    sleep_ms(50);
    CHECK(sched_getscheduler(tasks_now().purger) == SCHED_OTHER, "it has real-time priority");
    heap_free(&heap);
}

static void *last_thread(void *unused) {
    grow_and_shrink(PEAK);
    return unused;
}

// A process whose main thread and all others have ended, ends.
static void outlives_nobody(void) {
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork: %s", strerror(errno));
        if (child == 0) {
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, last_thread, NULL) == 0, "pthread_create");
            if (i % 2 != 0)
                pthread_join(thread, NULL);
            pthread_exit(NULL);
        }
        int status = 0;
        for (long ms = 0; waitpid(child, &status, WNOHANG) != child; ms += POLL_MS) {
            if (ms >= DEADLINE_MS / 4) {
                kill(child, SIGKILL); // no other signal would reach it
                waitpid(child, &status, 0);
                CHECK(false, "all threads have ended, and the process has not");
            }
            sleep_ms(POLL_MS);
        }
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status 0x%x", status);
    }
}

// Has the system answer calls of that number so from now on.
static void answer(unsigned number, unsigned how) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, how),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        world_skip("seccomp filters are not permitted here");
}

// It starts in a sandbox that ends a process which asks about scheduling, or changes it.
static void sandboxed(void) {
    static const unsigned numbers[] = {
        SYS_sched_setscheduler, SYS_sched_getscheduler, SYS_sched_setparam,
        SYS_sched_getparam,     SYS_sched_setattr,      SYS_sched_getattr,
        SYS_setpriority,        SYS_getpriority,        SYS_sched_yield};
    have_company();
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        answer(numbers[i], SECCOMP_RET_KILL_PROCESS);
    answer(SYS_prctl, SECCOMP_RET_KILL_PROCESS);
    heap_t heap = heap_grow(PEAK, 5);
    await_purger(true);
    const size_t full = kept_bytes();
    heap_free(&heap);
    await_kept(full - PEAK / 4 * 3, "in a sandbox");
}

// No thread to be had: one line says so, and everything else works.
static void refused(void) {
    char text[1024];
    int ends[2];
    have_company();
    CHECK(pipe(ends) == 0, "pipe");
    int before = dup(STDERR_FILENO);
    answer(SYS_clone, SECCOMP_RET_ERRNO | EAGAIN);
    answer(SYS_clone3, SECCOMP_RET_ERRNO | EAGAIN);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    errno = 77;
    for (int round = 0; round < 5; round++)
        grow_and_shrink(PEAK);
    int after = errno;
    dup2(before, STDERR_FILENO);
    CHECK(after == 77, "errno %d", after);
    ssize_t len = read(ends[0], text, sizeof text - 1);
    CHECK(len > 0, "no warning");
    text[len] = '\0';
    CHECK(strncmp(text, "hakmem: warning: ", 17) == 0 && strchr(text, '\n') == text + len - 1,
          "not one line of warning: %s", text);
    CHECK(tasks_now().threads == 2, "a thread has been started");
    heap_t heap = heap_grow(PEAK, 6);
    size_t full = kept_bytes();
    heap_free(&heap);
    CHECK(malloc_trim(0) == 1 && kept_bytes() < full - PEAK / 4 * 3, "malloc_trim");
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"absent", absent},
                 {"small", small},
                 {"ends", ends},
                 {"old", old},
                 {"tails", tails},
                 {"tails_beside", tails_beside},
                 {"alone", alone},
                 {"scattered", scattered},
                 {"beside", beside},
                 {"breathes", breathes},
                 {"breathes_in_pieces", breathes_in_pieces},
                 {"breathes_in_huge_blocks", breathes_in_huge_blocks},
                 {"empty_tables", empty_tables},
                 {"steady", steady},
                 {"signals", signals},
                 {"scheduling", scheduling},
                 {"last", outlives_nobody},
                 {"sandboxed", sandboxed},
                 {"refused", refused}};
    world_begin(60);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc == 2 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    CHECK(false, "usage: lean_thread CASE");
}
