/* A heap profile's sums equal what was allocated: exactly if every block is a sample, within 5 % if blocks are
 * sampled. With the 6400 samples that each check requires, 5 % is four standard deviations. */
#include <errno.h>
#include <sys/mman.h>

#include "profiles.h"

COUNTED static void *take_again(void *p, size_t n) {
    p = hak_realloc(p, n);
    __asm__ volatile("" ::: "memory");
    return p;
}

static void expect_about(bool ever, uint64_t objects, uint64_t bytes) {
    const sums_t sums = counted(ever);
    CHECK(sums.samples >= 6400);
    CHECK(sums.objects > objects * 95 / 100 && sums.objects < objects * 105 / 100);
    CHECK(sums.bytes > bytes * 95 / 100 && sums.bytes < bytes * 105 / 100);
}

/* ---- one thread ---- */

/* Sampled sums are unbiased for sizes whose chance of being a sample is 0.4 %, 5 % and 70 %, and nearly 1. */
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
        hak_free(take(100000)); /* the chance is practically 1 */
    expect_exactly(true, 100, 100 * 100000);
}

static void test_exact(void) {
    enum { BLOCKS = 20000 }; /* enough for the table to grow */
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
    expect_exactly(false, 1, 30); /* the failed realloc changed nothing */
    expect_exactly(true, sizeof sizes / sizeof sizes[0] + 1, bytes);
    hak_free(p);
    expect_exactly(false, 0, 0);
}

/* A failed realloc of a block older than the profile does not add the block to the profile. */
static void test_refused_realloc(void) {
    static const size_t sizes[] = {100, 100000, 5000000};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *p = take(sizes[i]);
        sample_one_in(0);
        CHECK(take_again(p, SIZE_MAX / 2) == NULL);
        expect_exactly(false, 0, 0);
        expect_exactly(true, 0, 0);
        hak_free(p);
    }
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

/* The outermost counted frame of a stack in use. */
static const void *caller_of_take(void) {
    for (const hk_profile_stack_t *s = hk_profile_stacks(); s != NULL; s = s->before)
        for (unsigned i = s->count; i != 0 && hk_load_relaxed(&s->in_use.objects) != 0; i--)
            if (is_counted(s->frames[i - 1]))
                return s->frames[i - 1];
    return NULL;
}

/* Two callers whose frames lie at the same address and call the same function are still told apart: nothing
 * remembered from the last stack may be taken for the new one. */
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

/* The unwinder knows nothing about code made at run time; the stack goes on through it by its frame pointer. */
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
    CHECK_EQ(most_counted_frames(), 2); /* take(), and call() beyond the made code */
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

/* ---- beside other watchers, and off ---- */

static unsigned told;

static void count(void **own, void *block, const hk_told_t *what) {
    (void)own, (void)block;
    told += what->n == 123;
}

/* Beside a profile another watcher is told of every operation, and the samples stay the same. */
static void test_company(void) {
    static const hk_watcher_t all = {count, count, NULL, NULL};
    told = 0;
    sample_one_in(1 << 20);
    hak_free(hak_malloc((size_t)1 << 28)); /* a sample; the next is some 8000 blocks away */
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

/* The count that a thread has counted down for sampled guards does not delay the profile's samples. */
static void test_beside_guards(void) {
    CHECK(hak_ctl("HAKMEM_PROF", "0", NULL, 0) == 0);
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "1000000000", NULL, 0) == 0);
    for (unsigned i = 0; i < 4; i++) /* use up the thread's earlier count */
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
    test_refused_realloc();
    test_stacks();
    test_same_place();
    test_made_code();
    test_company();
    test_beside_guards();
    test_off();
}

int main(void) {
    if (!can_profile())
        return unit_skip("no libgcc_s.so.1 for this C library: profiles are NOT tested");
    if (!is_emulated("reading memory by the system"))
        test_peek();
    test_all();
    apart = true;
    test_all();
    return 0;
}
