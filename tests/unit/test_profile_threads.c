/* Heap profiles with several threads, in a fork's child, and in signal handlers are exact, too. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "profiles.h"

enum { THREADS = 4, BLOCKS = 5000 };
static void *shared[THREADS][BLOCKS];

static void *take_many(void *blocks) {
    for (unsigned i = 0; i < BLOCKS; i++)
        ((void **)blocks)[i] = take(i);
    return NULL;
}

static void *free_many(void *blocks) {
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(((void **)blocks)[i]);
    return NULL;
}

static void run_threads(void *(*work)(void *)) {
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, shared[i]) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void test_threads(void) {
    const uint64_t bytes = (uint64_t)BLOCKS * (BLOCKS - 1) / 2;
    sample_one_in(0);
    run_threads(take_many);
    expect_exactly(false, THREADS * BLOCKS, THREADS * bytes);
    run_threads(free_many);
    expect_exactly(false, 0, 0);
    expect_exactly(true, THREADS * BLOCKS, THREADS * bytes);
}

static void in_child(void *of_parent) {
    expect_exactly(true, 0, 0);
    void *p = take(300);
    expect_exactly(true, 1, 300);
    hak_free(of_parent); /* not in the child's profile */
    expect_exactly(false, 1, 300);
    hak_free(p);
    expect_exactly(false, 0, 0);
}

static void test_child(void) {
    static child_t child;
    sample_one_in(0);
    void *p = take(200);
    child_run(&child, in_child, p);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
    expect_exactly(false, 1, 200);
    hak_free(p);
}

static char *page_of_a_stack;
static volatile sig_atomic_t interrupted;

static void allocate(int number) {
    (void)number;
    hak_free(take(64));
    interrupted++;
}

static void on_fault(int number) {
    (void)number;
    CHECK(mprotect(page_of_a_stack, hk_os_page_size(), PROT_READ | PROT_WRITE) == 0);
    raise(SIGUSR2);
}

/* hk_profile_stacks() first clears the parent's sums; that write faults, and on_fault() raises the signal. */
static void in_interrupted_child(void *unused) {
    (void)unused;
    alarm(200);
    signal(SIGSEGV, on_fault);
    signal(SIGUSR2, allocate);
    CHECK(mprotect(page_of_a_stack, hk_os_page_size(), PROT_READ) == 0);
    hk_profile_stacks();
    CHECK_EQ(interrupted, 1);
}

/* A signal that comes while the child clears its parent's profile is handled after that: its handler may allocate. */
static void test_interrupted_child(void) {
    static child_t child;
    sample_one_in(0);
    void *p = take(200);
    page_of_a_stack =
        (char *)((uintptr_t)hk_profile_stacks() & ~(uintptr_t)(hk_os_page_size() - 1));
    child_run(&child, in_interrupted_child, NULL);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
    hak_free(p);
}

static atomic_bool done;

static void *take_and_free(void *unused) {
    void *kept[8] = {0};
    for (unsigned i = 0; !hk_load_relaxed(&done) || i < 100; i++) {
        hak_free(kept[i % 8]);
        kept[i % 8] = take(i % 500);
    }
    for (unsigned i = 0; i < 8; i++)
        hak_free(kept[i]);
    return unused;
}

/* The profile goes on and off while threads run: blocks sampled before are forgotten, even if they are freed while it
 * is off. */
static void test_toggling(void) {
    pthread_t threads[THREADS];
    const int fd = open("/dev/null", O_WRONLY);
    hk_store_relaxed(&done, false);
    sample_one_in(0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, take_and_free, NULL) == 0);
    for (unsigned i = 0; i < 200; i++) {
        CHECK(hak_ctl("HAKMEM_PROF", "0", NULL, 0) == 0);
        void *p = take(40);
        CHECK(hak_ctl("HAKMEM_PROF", "1", NULL, 0) == 0);
        CHECK(hak_profile_write(fd) == 0);
        hak_free(p);
    }
    hk_store_relaxed(&done, true);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    expect_exactly(false, 0, 0);
    CHECK(close(fd) == 0);
}

static void in_busy_child(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < 2000; i++)
        shared[0][i] = take(300);
    expect_exactly(false, 2000, 2000 * 300);
    expect_exactly(true, 2000, 2000 * 300);
    for (unsigned i = 0; i < 2000; i++)
        hak_free(shared[0][i]);
    expect_exactly(false, 0, 0);
}

/* A fork may leave the child a table that other threads were changing: the child's profile is exact nevertheless. */
static void test_forks_of_many(void) {
    static child_t child;
    pthread_t threads[THREADS];
    hk_store_relaxed(&done, false);
    sample_one_in(0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, take_and_free, NULL) == 0);
    for (unsigned i = 0; i < 50; i++) {
        child_run(&child, in_busy_child, NULL);
        CHECK_TEXT(child.text, "");
        CHECK_EQ(child.status, 0);
    }
    hk_store_relaxed(&done, true);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    expect_exactly(false, 0, 0);
}

/* Without /proc a profile says that it has no mappings, which tools need to name addresses, and leaves out figures
 * that are unknown. */
static void in_blind_child(void *unused) {
    static char text[4096];
    const int fd = memfd_create("profile", 0);
    struct rlimit limit;
    (void)unused;
    CHECK(fd >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, limit.rlim_max}) == 0);
    CHECK(hak_profile_write(fd) == 0);
    const ssize_t n = pread(fd, text, sizeof text, 0);
    CHECK(n > 0 && memmem(text, (size_t)n, "live_bytes", 10) != NULL);
    CHECK(memmem(text, (size_t)n, "no mappings: ", 13) != NULL);
    CHECK(memmem(text, (size_t)n, "rss_bytes", 9) == NULL);
    /* as if a handler inside the boundary called exit(): blocks in use cannot be counted */
    hk_thread_t *self = hk_thread_enter();
    CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0 && hak_profile_write(fd) == 0);
    hk_thread_leave(self);
    const ssize_t less = pread(fd, text, sizeof text, 0);
    CHECK(less > 0 && memmem(text, (size_t)less, "live_bytes", 10) == NULL);
}

static void test_without_files(void) {
    static child_t child;
    sample_one_in(0);
    child_run(&child, in_blind_child, NULL);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
}

static volatile sig_atomic_t handled;

static void on_signal(int number) {
    (void)number;
    hak_free(hak_malloc(64));
    handled++;
}

static void *send_signals(void *thread) {
    while (!hk_load_relaxed(&done))
        pthread_kill(*(pthread_t *)thread, SIGUSR2);
    return NULL;
}

static void test_signals(void) {
    pthread_t sender, self = pthread_self();
    hk_store_relaxed(&done, false);
    handled = 0;
    sample_one_in(0);
    signal(SIGUSR2, on_signal);
    CHECK(pthread_create(&sender, NULL, send_signals, &self) == 0);
    unsigned taken = 0; /* ends early if signals come at each step, as under a sanitizer */
    for (; taken < 20000 && handled < 4000; taken++)
        hak_free(take(taken % 3000));
    hk_store_relaxed(&done, true);
    CHECK(pthread_join(sender, NULL) == 0);
    expect_exactly(false, 0, 0);
    CHECK(counted(true).samples >= taken); /* and the handler's, inside take() */
}

static atomic_bool held, let_go;

/* Holds the samples' lock until let_go, for 100 seconds at most. Returns NULL if let_go came in time. */
static void *hold_samples(void *unused) {
    size_t count;
    const uint64_t begun = hk_os_now_ms();
    CHECK(hk_profile_freeze(&count));
    atomic_store(&held, true);
    while (!atomic_load(&let_go) && hk_os_now_ms() - begun < 100000)
        usleep(1000);
    hk_profile_thaw();
    return atomic_load(&let_go) ? unused : (void *)&let_go;
}

/* A thread inside the boundary, like a signal handler that interrupted it there, does not wait for the samples' lock:
 * the lock's holder may wait for locks that the interrupted thread has. */
static void test_inside(void) {
    pthread_t holder;
    void *late;
    sample_one_in(0);
    void *before = take(500);
    atomic_store(&held, false);
    atomic_store(&let_go, false);
    CHECK(pthread_create(&holder, NULL, hold_samples, NULL) == 0);
    while (!atomic_load(&held))
        usleep(1000);
    hk_thread_t *own = hk_thread_enter();
    CHECK(own != NULL);
    void *p = take(500);
    CHECK(p != NULL);
    hak_free(before);
    hak_free(p);
    atomic_store(&let_go, true);
    hk_thread_leave(own);
    CHECK(pthread_join(holder, &late) == 0 && late == NULL);
}

static void test_all(void) {
    test_threads();
    test_child();
    test_interrupted_child();
    test_without_files();
    test_toggling();
    test_signals();
    test_inside();
}

int main(void) {
    if (!can_profile())
        return unit_skip("no libgcc_s.so.1 for this C library: profiles are NOT tested");
    test_all();
    test_forks_of_many();
    apart = true;
    test_all();
    return 0;
}
