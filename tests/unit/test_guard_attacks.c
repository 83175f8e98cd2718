/* Ways around the guard that must fail: by many threads, threads that end, forks, a tail that was read,
 * a signal handler amid an allocation, frees of the allocator's own memory, a free amid a realloc,
 * refused memory, more blocks of no bytes than there are places, and blocks without fences. */
#include <errno.h>
#include <pthread.h>

#include "backend/meta.h"
#include "faults.h"
#include "guard/block.h"
#include "guard/quarantine.h"
#include "guard/tail.h"
#include "magazines.h"
#include "os/os.h"

enum { BYTES = 400, LONGER = 5000, RACED = 20001 };

/* ---- many threads ---- */

enum { IDLE = 40, IN_A_ROW = 32 };
static pthread_barrier_t all_there, may_go;

static void *idle(void *unused) {
    hak_free(hak_malloc(16));
    pthread_barrier_wait(&all_there);
    pthread_barrier_wait(&may_go);
    return unused;
}

/* With many threads, blocks allocated in a row must not lie side by side. */
static void *one_of_many(void *unused) {
    char *p[IN_A_ROW];
    unsigned beside = 0;
    CHECK(hk_threads_are_many());
    for (unsigned i = 0; i < IN_A_ROW; i++)
        p[i] = hak_malloc(BYTES);
    for (unsigned i = 1; i < IN_A_ROW; i++)
        beside += p[i] == p[i - 1] + hk_classes[hk_map_kind(p[i])].size;
    CHECK(beside < IN_A_ROW / 2);
    for (unsigned i = 0; i < IN_A_ROW; i++)
        hak_free(p[i]);
    return unused;
}

static void many_threads(void) {
    pthread_t threads[IDLE], one;
    CHECK(pthread_barrier_init(&all_there, NULL, IDLE + 1) == 0);
    CHECK(pthread_barrier_init(&may_go, NULL, IDLE + 1) == 0);
    for (unsigned i = 0; i < IDLE; i++)
        CHECK(pthread_create(&threads[i], NULL, idle, NULL) == 0);
    pthread_barrier_wait(&all_there);
    CHECK(pthread_create(&one, NULL, one_of_many, NULL) == 0 && pthread_join(one, NULL) == 0);
    pthread_barrier_wait(&may_go);
    for (unsigned i = 0; i < IDLE; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* ---- threads that end ---- */

static void *frees_one(void *unused) {
    char *p = hak_malloc(BYTES);
    (void)unused;
    hak_free(p);
    return p;
}

static void *takes_many(void *old) {
    enum { MANY = 200 };
    void *p[MANY];
    for (unsigned i = 0; i < MANY; i++)
        CHECK((p[i] = hak_malloc(BYTES)) != old);
    for (unsigned i = 0; i < MANY; i++)
        hak_free(p[i]);
    return NULL;
}

/* A block that an ended thread freed must stay in quarantine: the next thread, on the same record, must
 * not get it soon. A server may start a thread for each connection. */
static void what_waits_outlives_its_thread(void) {
    pthread_t one;
    void *old;
    CHECK(pthread_create(&one, NULL, frees_one, NULL) == 0 && pthread_join(one, &old) == 0);
    CHECK(pthread_create(&one, NULL, takes_many, old) == 0 && pthread_join(one, NULL) == 0);
}

/* Adds the bytes in quarantine of other threads than the caller, whose quarantine has the blocks that
 * the C library freed when it started them. */
static void add_waiting(hk_thread_t *thread, void *sum) {
    hk_quarantine_t *q = thread != own_record() ? hk_load_relaxed(&thread->quarantine) : NULL;
    for (unsigned cls = 1; cls < HK_CLASS_COUNT && q != NULL; cls++)
        *(size_t *)sum += hk_quarantine_count(q, cls) * (size_t)hk_classes[cls].size;
}

static void *frees_long_ones(void *unused) {
    enum { EACH = 12, FROM = 8192 };
    void *p[EACH];
    for (size_t n = FROM; n < HK_MID_MAX; n += n / 4) {
        for (unsigned i = 0; i < EACH; i++)
            CHECK((p[i] = hak_malloc(n - 1)) != NULL);
        for (unsigned i = 0; i < EACH; i++)
            hak_free(p[i]);
    }
    pthread_barrier_wait(&all_there);
    return unused;
}

/* The quarantines of ended threads must stay within their bound, and a trim must empty them. */
static void threads_leave_so_much(void) {
    enum { THREADS = 24 };
    const size_t least = 2 * HK_MIB, most = 8 * HK_MIB;
    size_t before = 0, waits = 0;
    pthread_t threads[THREADS];
    hak_trim();
    CHECK(hk_threads_visit(add_waiting, &before));
    CHECK_EQ(before, 0);
    CHECK(pthread_barrier_init(&all_there, NULL, THREADS) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, frees_long_ones, NULL) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(hk_threads_visit(add_waiting, &waits));
    CHECK(least <= waits && waits <= most);
    hak_trim();
    waits = 0;
    CHECK(hk_threads_visit(add_waiting, &waits));
    CHECK_EQ(waits, 0);
}

/* A thread's end must check the blocks in quarantine of the classes that it used, also those that an
 * earlier thread left there; classes that it did not use are skipped. */
static char *freed;

static void *frees_two_sizes(void *unused) {
    char *p = hak_malloc(LONGER);
    hak_free(hak_malloc(BYTES));
    hak_free(p);
    freed = hidden(p);
    return unused;
}

static void *uses_one_size(void *bytes) {
    hak_free(hak_malloc((uintptr_t)bytes));
    return NULL;
}

static void write_between_threads(void *bytes) {
    pthread_t one;
    CHECK(pthread_create(&one, NULL, frees_two_sizes, NULL) == 0 && pthread_join(one, NULL) == 0);
    freed[8] = 1;
    CHECK(pthread_create(&one, NULL, uses_one_size, bytes) == 0 && pthread_join(one, NULL) == 0);
}

static void ends_look_at_what_was_used(void) {
    static child_t child;
    child_run(&child, write_between_threads, (void *)BYTES);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
    check_fault(write_between_threads, (void *)LONGER, "hakmem: fatal: write after free: 0x");
}

/* A thread ends while its quarantine is closed, as when a signal handler interrupts an allocation and
 * ends the thread. The record's next thread must get ordinary blocks, not emergency ones. */
static void *ends_at_a_block(void *unused) {
    hak_free(hak_malloc(BYTES));
    hk_quarantine_close(hk_load_relaxed(&own_record()->quarantine));
    return unused;
}

static void *is_as_all(void *unused) {
    void *p = hak_malloc(BYTES);
    CHECK(hk_kind_is_class(hk_map_kind(p)));
    hak_free(p);
    return unused;
}

static void a_thread_ends_at_a_block(void) {
    pthread_t one;
    CHECK(pthread_create(&one, NULL, ends_at_a_block, NULL) == 0 && pthread_join(one, NULL) == 0);
    CHECK(pthread_create(&one, NULL, is_as_all, NULL) == 0 && pthread_join(one, NULL) == 0);
}

/* ---- forks ---- */

/* Prints a hash of the addresses that allocations get, and a random number of the guard. */
static void say_order(void *unused) {
    enum { BLOCKS = 200 };
    uintptr_t sum = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        void *p = hak_malloc(BYTES);
        sum = sum * 31 + (uintptr_t)p;
        hak_free(p);
    }
    dprintf(STDOUT_FILENO, "%" PRIxPTR " %u", sum, hk_guard_chance(UINT32_MAX));
    (void)unused;
}

/* Two children of the same process must draw different random numbers and get blocks in different
 * orders. */
static void children_differ(void) {
    static child_t first, second;
    for (unsigned i = 0; i < 1000; i++) /* so that the children carve no slabs */
        hak_free(hak_malloc(BYTES));
    hk_guard_chance(1);
    child_run(&first, say_order, NULL);
    child_run(&second, say_order, NULL);
    CHECK(first.status == 0 && second.status == 0);
    char *of_first = strchr(first.text, ' '), *of_second = strchr(second.text, ' ');
    CHECK(of_first != NULL && of_second != NULL && strcmp(of_first, of_second) != 0);
    *of_first = *of_second = '\0';
    CHECK(strcmp(first.text, second.text) != 0);
}

/* ---- tails ---- */

/* The tail at one address must not reveal the tail at another that differs in one bit: over many pairs,
 * the two tails must differ in many ways. */
static void tails_tell_nothing_of_others(void) {
    enum { PAIRS = 4096, FROM = 4, TO = 30, LEAST = 100 };
    for (unsigned bit = FROM; bit < TO; bit++) {
        bool seen[256] = {false};
        unsigned ways = 0;
        for (uintptr_t i = 0; i < PAIRS; i++) {
            const char *p = (const char *)(i * 0x10010),
                       *q = (const char *)((uintptr_t)p ^ (uintptr_t)1 << bit);
            const uint64_t differ = hk_tail_of(p, 32, 64).value[0] ^ hk_tail_of(q, 32, 64).value[0];
            const unsigned byte = differ >> 16 & 0xff;
            ways += !seen[byte];
            seen[byte] = true;
        }
        CHECK(ways >= LEAST);
    }
}

static void set_guard(const hk_guard_t *settings) {
    const bool is_kept = hk_os_page_size() == sizeof hk_guard_page;
    CHECK(!is_kept || hk_os_protect(&hk_guard_page, sizeof hk_guard_page, HK_READ_WRITE));
    *hk_guard = *settings;
    CHECK(!is_kept || hk_os_protect(&hk_guard_page, sizeof hk_guard_page, HK_READ));
}

/* Each byte of a tail, and the difference of each two bytes, must depend on every bit of the secrets: a
 * part that depended on a few bits would let these be guessed by themselves. */
static void tails_take_all_of_the_secrets(void) {
    enum { DRAWS = 32, PLACES = 32, BYTES_OF_A_WORD = 8, LEAST = DRAWS * PLACES / 16 };
    static unsigned changed[3][64][BYTES_OF_A_WORD][BYTES_OF_A_WORD];
    const hk_guard_t before = *hk_guard;
    for (unsigned draw = 0; draw < DRAWS; draw++) {
        hk_guard_t drawn = before, other;
        uint64_t was[PLACES], *const secrets[] = {&other.secret, &other.mixes, &other.stirs};
        drawn.secret = hk_os_random();
        drawn.mixes = hk_os_random() | 1;
        drawn.stirs = hk_os_random() | 1;
        set_guard(&drawn);
        for (uintptr_t i = 0; i < PLACES; i++)
            was[i] = hk_tail_of((const char *)(i * 0x10010), 32, 64).value[1];
        for (unsigned at = 0; at < 3 * 64; at++) {
            other = drawn;
            *secrets[at / 64] ^= (uint64_t)1 << at % 64;
            set_guard(&other);
            for (uintptr_t i = 0; i < PLACES; i++) {
                const hk_tail_t tail = hk_tail_of((const char *)(i * 0x10010), 32, 64);
                const uint64_t differs = was[i] ^ tail.value[1];
                for (unsigned a = 0; a < BYTES_OF_A_WORD; a++)
                    for (unsigned b = 0; b <= a; b++)
                        changed[at / 64][at % 64][a][b] +=
                            (uint8_t)(differs >> 8 * a ^ (b < a ? differs >> 8 * b : 0)) != 0;
            }
        }
    }
    set_guard(&before);
    for (unsigned at = 0; at < 3 * 64; at++)
        for (unsigned a = 0; a < BYTES_OF_A_WORD; a++)
            for (unsigned b = 0; b <= a; b++)
                CHECK(changed[at / 64][at % 64][a][b] >= LEAST);
}

/* ---- handlers ---- */

/* A signal handler that interrupts its thread amid an allocation must get emergency blocks, which the
 * thread cannot be about to take, and must be able to free them. */
static void a_handler_gets_its_own(void) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    const uint64_t dice = hk_quarantine_close(thread->quarantine);
    for (unsigned i = 0; i < 100; i++) {
        void *p = hak_malloc(100);
        CHECK(p != NULL && hk_map_kind(p) == HK_KIND_EMERGENCY);
        hak_free(p);
        CHECK_EQ(hk_load_relaxed(&thread->quarantine->dice), 0);
    }
    hk_quarantine_open(thread->quarantine, dice);
    void *p = hak_malloc(100);
    CHECK(hk_kind_is_class(hk_map_kind(p)));
    hak_free(p);
}

/* ---- the allocator's own memory ---- */

static size_t forged; /* written where the C library's allocator has a chunk's size */

static void forge_and_free(void *p) {
    memcpy((char *)p - sizeof forged, &forged, sizeof forged);
    hak_free(p);
}

/* The allocator's own memory must not pass for a chunk of the C library, nor must a mapping whose forged
 * size reaches into it: its free must be reported. */
static void own_memory_is_no_chunk(void) {
    const size_t page = hk_os_page_size();
    char *own = hk_meta_alloc(HK_MIB), *fence = own - HK_CACHE_LINE - page; /* by itself */
    void *block = hak_malloc(100);
    forged = 48;
    CHECK_FAULT(forge_and_free, own + 16, "invalid free", "");
    CHECK_FAULT(ask_size, own + 16, "invalid pointer", "");
    CHECK_FAULT(forge_and_free, (char *)hk_map_leaf(block) + 16, "invalid free", "");
    CHECK(hk_os_protect(fence, page, HK_READ_WRITE));
#ifdef __GLIBC__ /* chunks of other C libraries are not recognized */
    forged = (2 * page) | 2;
    CHECK_FAULT(forge_and_free, fence + 16, "invalid free", "");
#endif
    CHECK(hk_os_protect(fence, page, HK_NO_ACCESS));
    hak_free(block);
}

/* ---- refused memory, and blocks of no bytes ---- */

#if HK_DEBUG
static unsigned waiting(void) {
    return hk_quarantine_count(hk_load_relaxed(&own_record()->quarantine), hk_class_of(BYTES + 1));
}

/* A refused large allocation must not empty the quarantine; the next large block must be fenced. */
static void a_refusal_changes_nothing(void) {
    void *live = hak_malloc(64 * HK_MIB);
    for (unsigned i = 0; i < 4; i++)
        hak_free(hak_malloc(BYTES));
    const unsigned before = waiting();
    CHECK(before != 0);
    hk_os_fail_after(0);
    CHECK(hak_malloc(60 * HK_MIB) == NULL && errno == ENOMEM);
    hk_os_fail_after(-1);
    CHECK_EQ(waiting(), before);
    void *p = hak_malloc(100000);
    CHECK(p != NULL && (hk_map_kind(p) == HK_KIND_FENCED) == hk_guard->fences);
    hak_free(p);
    hak_free(live);
    hak_trim();
    CHECK_EQ(waiting(), 0);
}
#endif

/* Blocks of no bytes beyond the number of places must be blocks of a class with a tail, not mappings,
 * of which there are few. */
static void blocks_of_no_bytes(void) {
    enum { BLOCKS = 70000, LAST = BLOCKS - 1 };
    static void *p[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK((p[i] = hak_malloc(0)) != NULL);
    CHECK(hk_kind_is_class(hk_map_kind(p[LAST])) && hak_usable_size(p[LAST]) == 0);
    CHECK(*(char *)p[LAST] != 0); /* its tail */
    void *large = hak_malloc(100000);
    CHECK((hk_map_kind(large) == HK_KIND_FENCED) == hk_guard->fences);
    hak_free(large);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(p[i]);
}

/* ---- a free amid a realloc ---- */

static char *raced;

static char *page_of(char *p) { return p - (uintptr_t)p % hk_os_page_size(); }

/* The realloc is about to check the tail: it has read the shadow, and not written it yet. Marks the
 * block as free there, as another thread's free would. */
static void begin_to_free(int number) {
    const unsigned cls = hk_map_kind(raced);
    _Atomic uint16_t *shadow = hk_shadow_of(raced, cls);
    (void)number;
    CHECK(hk_block_set_free(shadow, hk_load_relaxed(shadow)));
    CHECK(hk_os_protect(page_of(raced + RACED - 1), hk_os_page_size(), HK_READ_WRITE));
}

/* Another thread's free marks the block as free, but has not cleared it, while this thread shrinks it
 * in place. The realloc must be reported: else the block would be both free and in use. */
static void resize_what_is_freed(void *unused) {
    (void)unused;
    raced = hak_malloc(RACED);
    CHECK(sigaction(SIGSEGV, &(struct sigaction){.sa_handler = begin_to_free}, NULL) == 0);
    CHECK(hk_os_protect(page_of(raced + RACED - 1), hk_os_page_size(), HK_NO_ACCESS));
    dprintf(STDERR_FILENO, "%p\n", (void *)raced);
    hidden(hak_realloc(raced, RACED - 8));
}

static void resizes_nothing_that_is_freed(void) {
    static child_t child;
    char expected[160];
    child_run(&child, resize_what_is_freed, NULL);
    char *said = strchr(child.text, '\n');
    CHECK(said != NULL);
    *said++ = '\0';
    snprintf(expected, sizeof expected, "hakmem: fatal: invalid pointer: %.20s, in thread ",
             child.text);
    CHECK(strstr(said, expected) == said);
    CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
}

/* ---- blocks without fences ---- */

/* Large blocks without fences must read as zero, as all blocks of a guarded process do. */
static void unfenced(void *unused) {
    enum { LARGE = 100000, ROUNDS = 20 };
    (void)unused;
    set_fences(false);
    for (unsigned round = 0; round < ROUNDS; round++) {
        char *p = hak_malloc(LARGE);
        CHECK(p != NULL && hk_map_kind(p) != HK_KIND_FENCED);
        CHECK_EQ(hk_not_zero(p, LARGE), SIZE_MAX);
        memset(p, 1, LARGE);
        hak_free(p);
        p = hak_calloc(1, LARGE);
        CHECK_EQ(hk_not_zero(p, LARGE), SIZE_MAX);
        memset(p, 1, LARGE);
        hak_free(p);
    }
}

int main(void) {
    static child_t child;
    hak_free(hak_malloc(1));
    guard();
    if (!HK_HOSTILE) /* there, magazines hold too few blocks to have an order */
        many_threads();
    what_waits_outlives_its_thread();
    threads_leave_so_much();
    ends_look_at_what_was_used();
    a_thread_ends_at_a_block();
    children_differ();
    tails_tell_nothing_of_others();
    tails_take_all_of_the_secrets();
    a_handler_gets_its_own();
    own_memory_is_no_chunk();
    resizes_nothing_that_is_freed();
#if HK_DEBUG
    a_refusal_changes_nothing();
#endif
    if (hk_guard->fences)
        blocks_of_no_bytes();
    child_run(&child, unfenced, NULL);
    CHECK_TEXT(child.text, "");
    CHECK(child.status == 0);
    return 0;
}
