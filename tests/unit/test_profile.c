/* What a heap profile says is what was allocated: exactly where every block is a sample, within 5 % where one in so
 * many bytes is. The tolerance is four standard deviations: 6400 samples or more. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"
#include "front/boundary.h"
#include "front/watched.h"
#include "hakmem/hakmem.h"
#include "os/stack.h"
#include "profile/sample.h"

/* What is allocated here is counted, by the addresses on its stacks; all else in the process is not. */
#define COUNTED __attribute__((noinline, section("of_the_test")))
extern const char __start_of_the_test[], __stop_of_the_test[];

COUNTED static void *take(size_t n) {
    void *p = hak_malloc(n);
    __asm__ volatile("" ::: "memory"); /* or the call is a jump */
    return p;
}

COUNTED static void *take_again(void *p, size_t n) {
    p = hak_realloc(p, n);
    __asm__ volatile("" ::: "memory");
    return p;
}

static bool is_counted(const void *frame) {
    return (const char *)frame >= __start_of_the_test && (const char *)frame < __stop_of_the_test;
}

static unsigned counted_frames(const hk_profile_stack_t *s) {
    unsigned n = 0;
    for (unsigned i = 0; i < s->count; i++)
        n += is_counted(s->frames[i]);
    return n;
}

typedef struct {
    uint64_t samples, objects, bytes;
} sums_t;

static sums_t add(sums_t sums, const hk_profile_sums_t *more) {
    return (sums_t){sums.samples + hk_load_relaxed(&more->objects),
                    sums.objects + hk_load_relaxed(&more->all_objects),
                    sums.bytes + hk_load_relaxed(&more->all_bytes)};
}

/* In use, or `ever` allocated. */
static sums_t counted(bool ever) {
    sums_t sums = {0};
    for (const hk_profile_stack_t *s = hk_profile_stacks(); s != NULL; s = s->before)
        if (counted_frames(s) != 0)
            sums = add(sums, ever ? &s->allocated : &s->in_use);
    sums.objects = (sums.objects + HK_PROFILE_OBJECT / 2) / HK_PROFILE_OBJECT;
    return sums;
}

static void expect_exactly(bool ever, uint64_t objects, uint64_t bytes) {
    const sums_t sums = counted(ever);
    CHECK_EQ(sums.samples, objects);
    CHECK_EQ(sums.objects, objects);
    CHECK_EQ(sums.bytes, bytes);
}

static void expect_about(bool ever, uint64_t objects, uint64_t bytes) {
    const sums_t sums = counted(ever);
    CHECK(sums.samples >= 6400);
    CHECK(sums.objects > objects * 95 / 100 && sums.objects < objects * 105 / 100);
    CHECK(sums.bytes > bytes * 95 / 100 && sums.bytes < bytes * 105 / 100);
}

/* Whether samples lie apart, as at the default rate, and all that is not one goes by hits where it can. */
static bool apart;

/* From now on one in so many bytes: what a thread has counted down at another rate ends first. */
static void sample_one_in(uint64_t bytes) {
    CHECK(hak_ctl("HAKMEM_PROF", "0", NULL, 0) == 0);
    CHECK(hak_ctl("HAKMEM_PROF", "1", NULL, 0) == 0);
    hk_profile_start(bytes, 12345);
    if (!apart)
        hk_front_apply();
    hak_free(hak_malloc((size_t)1 << 24));
    hak_free(hak_malloc((size_t)1 << 24));
    hk_profile_start(bytes, 12345);
}

/* ---- one thread ---- */

/* The chance of a sample is 0.4 %, 5 % and 70 %. */
static void test_weights(void) {
    enum { ONE_IN = 4096, SAMPLES = 10000, MOST = SAMPLES * ONE_IN / 16 };
    static void *kept[MOST];
    static const size_t sizes[] = {16, 200, 5000};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t n = sizes[i], blocks = SAMPLES * hk_max(ONE_IN, n) / n;
        sample_one_in(ONE_IN);
        CHECK(hk_watched() == (apart ? HK_WATCHED_SAMPLES : HK_WATCHED_ALL));
        for (size_t k = 0; k < blocks; k++) {
            kept[k] = take(n);
            hak_free(take(n));
        }
        expect_about(false, blocks, blocks * n);
        expect_about(true, 2 * blocks, 2 * blocks * n);
        for (size_t k = 0; k < blocks; k++)
            hak_free(kept[k]);
        expect_exactly(false, 0, 0);
    }
    sample_one_in(ONE_IN);
    for (unsigned k = 0; k < 100; k++)
        hak_free(take(100000)); /* the chance is 1 */
    expect_exactly(true, 100, 100 * 100000);
}

static void test_exact(void) {
    enum { BLOCKS = 20000 }; /* the table grows */
    static void *kept[BLOCKS];
    uint64_t state = 1, bytes = 0, left = 0;
    sample_one_in(0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        const size_t n = chance_below(&state, 3000);
        kept[i] = take(n);
        bytes += n;
        left += i % 3 == 0 ? n : 0;
    }
    expect_exactly(false, BLOCKS, bytes);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i % 3 != 0)
            hak_free(kept[i]);
    expect_exactly(false, (BLOCKS + 2) / 3, left);
    expect_exactly(true, BLOCKS, bytes);
    for (unsigned i = 0; i < BLOCKS; i += 3)
        hak_free(kept[i]);
    expect_exactly(false, 0, 0);
    CHECK_EQ(hk_load_relaxed(&hk_profile_lost), 0);
}

static void test_realloc(void) {
    static const size_t sizes[] = {104, 2000, 60000, 5000000, 9000000, 30};
    uint64_t bytes = 100;
    sample_one_in(0);
    void *p = take(100);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        p = take_again(p, sizes[i]);
        bytes += sizes[i];
        expect_exactly(false, 1, sizes[i]);
        expect_exactly(true, i + 2, bytes);
    }
    CHECK(take_again(p, SIZE_MAX / 2) == NULL);
    expect_exactly(false, 1, 30); /* as it was */
    expect_exactly(true, sizeof sizes / sizeof sizes[0] + 1, bytes);
    hak_free(p);
    expect_exactly(false, 0, 0);
}

/* ---- stacks ---- */

COUNTED static void *take_deep(unsigned depth) {
    void *p = depth != 0 ? take_deep(depth - 1) : take(10);
    __asm__ volatile("" ::: "memory");
    return p;
}

static unsigned most_counted_frames(void) {
    unsigned most = 0;
    for (const hk_profile_stack_t *s = hk_profile_stacks(); s != NULL; s = s->before)
        if (hk_load_relaxed(&s->in_use.objects) != 0)
            most = (unsigned)hk_max(most, counted_frames(s));
    return most;
}

static void test_stacks(void) {
    sample_one_in(0);
    void *p = take_deep(5);
    CHECK_EQ(most_counted_frames(), 7);
    hak_free(p);
    p = take_deep(500);
    const unsigned frames = most_counted_frames();
    CHECK(frames > 40 && frames <= 64);
    hak_free(p);
}

typedef void *taker_t(size_t n);

#define TAKER(name)                                                                                \
    COUNTED static void *name(size_t n) {                                                          \
        void *p = take(n);                                                                         \
        __asm__ volatile("nop /* " #name " */" ::: "memory");                                      \
        return p;                                                                                  \
    }
TAKER(take_here)
TAKER(take_there)

/* The outermost frame that is counted. */
static const void *caller_of_take(void) {
    for (const hk_profile_stack_t *s = hk_profile_stacks(); s != NULL; s = s->before)
        for (unsigned i = s->count; i != 0 && hk_load_relaxed(&s->in_use.objects) != 0; i--)
            if (is_counted(s->frames[i - 1]))
                return s->frames[i - 1];
    return NULL;
}

/* Where a frame lies where another one lay the last time, and what it called is the same, it is still another's. */
static void test_same_place(void) {
    static taker_t *const takers[] = {take_here, take_there};
    const void *callers[4];
    sample_one_in(0);
    for (unsigned i = 0; i < 4; i++) {
        void *p = takers[i / 2](10);
        callers[i] = caller_of_take();
        hak_free(p);
    }
    CHECK(callers[0] != NULL && callers[1] == callers[0]);
    CHECK(callers[2] != NULL && callers[2] != callers[0] && callers[3] == callers[2]);
}

#ifdef __x86_64__
COUNTED static void *call(void *(*made)(void *(*)(size_t), size_t n)) {
    void *p = made(take, 20);
    __asm__ volatile("" ::: "memory");
    return p;
}

/* Of code that was made at run time the unwinder knows nothing; it has a frame pointer. */
static void test_made_code(void) {
    static const unsigned char code[] = {
        0x55,             /* push %rbp */
        0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
        0x48, 0x89, 0xf8, /* mov %rdi, %rax */
        0x48, 0x89, 0xf7, /* mov %rsi, %rdi */
        0xff, 0xd0,       /* call *%rax */
        0x5d, 0xc3,       /* pop %rbp; ret */
    };
    void *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, code, sizeof code);
    void *(*made)(void *(*)(size_t), size_t);
    memcpy(&made, &page, sizeof made);
    sample_one_in(0);
    void *p = call(made);
    CHECK_EQ(most_counted_frames(), 2); /* take, and call behind the made code */
    hak_free(p);
}
#else
static void test_made_code(void) {}
#endif

static void test_peek(void) {
    const size_t page = hk_os_page_size();
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t word = 0;
    CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
    pages[page - 8] = 7;
    CHECK(hk_os_peek(&word, (uintptr_t)pages + page - 8, 8) && word == 7);
    CHECK(!hk_os_peek(&word, (uintptr_t)pages + page - 4, 8));
    CHECK(!hk_os_peek(&word, 0, 8));
    CHECK(!hk_os_peek(&word, UINTPTR_MAX - 3, 8));
}

/* ---- threads, processes, signals ---- */

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
    hak_free(of_parent); /* of which the child knows nothing */
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

/* The sums are the first thing that is written there. */
static void in_interrupted_child(void *unused) {
    (void)unused;
    alarm(20);
    signal(SIGSEGV, on_fault);
    signal(SIGUSR2, allocate);
    CHECK(mprotect(page_of_a_stack, hk_os_page_size(), PROT_READ) == 0);
    hk_profile_stacks();
    CHECK_EQ(interrupted, 1);
}

/* A signal that comes while what was the parent's is forgotten is handled after that. */
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

/* What was sampled before is forgotten, whatever becomes of it while nobody is told. */
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

/* What the other threads were doing to the table is half done in the child. */
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

/* A profile that no tool can name the addresses of says so, and nothing that is not known. */
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
    hk_thread_t *self = hk_thread_enter(); /* as who exits in a handler: nothing can be counted */
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
    unsigned taken = 0; /* fewer where a signal comes at each step, as under a sanitizer */
    for (; taken < 20000 && handled < 4000; taken++)
        hak_free(take(taken % 3000));
    hk_store_relaxed(&done, true);
    CHECK(pthread_join(sender, NULL) == 0);
    expect_exactly(false, 0, 0);
    CHECK(counted(true).samples >= taken); /* the handler's, inside ours, may count */
}

static atomic_bool held, let_go;

/* Until it is told, but not for ever: true then. */
static void *hold_samples(void *unused) {
    size_t count;
    const uint64_t begun = hk_os_now_ms();
    CHECK(hk_profile_freeze(&count));
    atomic_store(&held, true);
    while (!atomic_load(&let_go) && hk_os_now_ms() - begun < 10000)
        usleep(1000);
    hk_profile_thaw();
    return atomic_load(&let_go) ? unused : (void *)&let_go;
}

/* As in a signal handler that has interrupted its thread inside the boundary, where that may have locks: it does not wait
 * for whoever has the samples, who may wait for these. */
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

static unsigned told;

static void count(void **own, void *block, const hk_told_t *what) {
    (void)own, (void)block;
    told += what->n == 123;
}

/* Somebody else who wants to hear of everything does, and samples are the same. */
static void test_company(void) {
    static const hk_watcher_t all = {count, count, NULL, NULL};
    told = 0;
    sample_one_in(1 << 20);
    hak_free(hak_malloc((size_t)1 << 28)); /* a sample, and behind it a gap of some 8000 blocks */
    hk_watch(HK_WATCH_RECORD, &all);
    for (unsigned i = 0; i < 100; i++)
        hak_free(take(123));
    CHECK_EQ(told, 100);
    CHECK(counted(true).samples < 100);
    sample_one_in(0);
    for (unsigned i = 0; i < 100; i++)
        hak_free(take(123));
    hk_watch(HK_WATCH_RECORD, NULL);
    CHECK_EQ(told, 200);
    expect_exactly(true, 100, 12300);
}

/* What a thread has counted down for sampled guards is none of the profile's. */
static void test_beside_guards(void) {
    CHECK(hak_ctl("HAKMEM_PROF", "0", NULL, 0) == 0);
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "1000000000", NULL, 0) == 0);
    for (unsigned i = 0; i < 4; i++) /* whatever was counted down before */
        hak_free(hak_malloc((size_t)1 << 24));
    sample_one_in(0);
    for (unsigned i = 0; i < 100; i++)
        hak_free(take(123));
    expect_exactly(true, 100, 12300);
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "0", NULL, 0) == 0);
}

static void test_off(void) {
    CHECK(hak_ctl("HAKMEM_PROF", "0", NULL, 0) == 0);
    CHECK(hak_profile_write(STDOUT_FILENO) == -1 && errno == EINVAL);
    CHECK(hak_ctl("HAKMEM_PROF", "1", NULL, 0) == 0);
    expect_exactly(true, 0, 0);
    CHECK(hak_profile_write(-1) == -1 && errno == EBADF);
    CHECK(hak_ctl("HAKMEM_PROF", "0", NULL, 0) == 0);
}

static void test_all(void) {
    test_weights();
    test_exact();
    test_realloc();
    test_stacks();
    test_same_place();
    test_made_code();
    test_threads();
    test_child();
    test_interrupted_child();
    test_without_files();
    test_toggling();
    test_signals();
    test_inside();
    test_company();
    test_beside_guards();
    test_off();
}

int main(void) {
    if (!hk_stack_prepare())
        return unit_skip("no libgcc_s.so.1 for this C library: profiles are NOT tested");
    /* the purger's thread would be started, and what that takes counted, by whose turn it is */
    CHECK(hak_ctl("HAKMEM_SS_MEM_LEAN_DECOMMIT", "OFF", NULL, 0) == 0);
    if (!is_emulated("reading memory by the system"))
        test_peek();
    test_all();
    test_forks_of_many();
    apart = true;
    test_all();
    return 0;
}
