/* Out of memory at every point: the system refuses from its Nth call on, for each N in turn. A request succeeds, or
 * fails with NULL and ENOMEM; no memory leaks, and afterwards all requests succeed again. Each N runs in a child of
 * its own, so that it starts without memory that an earlier run cached. */
#include <errno.h>
#include <pthread.h>

#include "check.h"
#include "hakmem/hakmem.h"
#include "in_use.h"
#include "os/os.h"

#if HK_DEBUG

enum { LAST_N = 60, BLOCKS = 104 };

typedef struct {
    unsigned char *p;
    size_t n;
} block_t;

static block_t blocks[BLOCKS];
static unsigned refusals;

/* Steps between the bytes written: every byte of a small block, few of a large one; enough to detect a block that
 * was given out twice. */
static size_t stride(size_t n) { return n <= 4096 ? 1 : n <= HK_MID_MAX ? 509 : 65521; }

static void fill(block_t *block) {
    for (size_t i = 0; i < block->n; i += stride(block->n))
        block->p[i] = (unsigned char)((size_t)(block - blocks) + i);
}

static void check_filled(const block_t *block, size_t upto) {
    for (size_t i = 0; i < upto; i += stride(block->n))
        CHECK_EQ(block->p[i], (unsigned char)((size_t)(block - blocks) + i));
}

static bool accept(block_t *block, void *p, size_t n) {
    if (p == NULL) {
        CHECK_EQ(errno, ENOMEM);
        refusals++;
        return false;
    }
    CHECK_EQ(errno, 0); /* success does not set errno */
    CHECK(hak_usable_size(p) >= n);
    *block = (block_t){p, n};
    fill(block);
    return true;
}

/* All paths that need memory: classes, large, huge, aligned, zeroed, growing and moving. */
static void allocate_all(void) {
    static const size_t sizes[] = {1,      24,     100,        1000,       3000,       20000, 40000,
                                   200000, 900000, 2 * HK_MIB, 3 * HK_MIB, 5 * HK_MIB, 48};
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t n = sizes[i % (sizeof sizes / sizeof sizes[0])] + i / 13;
        block_t *block = &blocks[i];
        errno = 0;
        switch (i % 4) {
        case 0:
            accept(block, hak_malloc(n), n);
            break;
        case 1: {
            unsigned char *p = hak_calloc(n, 1);
            for (size_t j = 0; p != NULL && j < n; j += stride(n))
                CHECK_EQ(p[j], 0);
            accept(block, p, n);
            break;
        }
        case 2: {
            size_t align = (size_t)32 << i % 18;
            void *p = hak_aligned_alloc(align, n);
            CHECK((uintptr_t)p % align == 0);
            accept(block, p, n);
            break;
        }
        default:
            if (accept(block, hak_malloc(n), n)) {
                errno = 0;
                void *p = hak_realloc(block->p, 3 * n);
                if (p != NULL)
                    block->p = p;
                else
                    CHECK_EQ(errno, ENOMEM);
                check_filled(block, n);
            }
        }
    }
}

static void check_and_free_all(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (blocks[i].p != NULL)
            check_filled(&blocks[i], blocks[i].n);
        hak_free(blocks[i].p);
        blocks[i] = (block_t){0};
    }
}

/* From a process that has allocated before ... */
static void fail_after(void *argument) {
    long n = *(long *)argument;
    hak_free(hak_malloc(1));
    size_t before = in_use_settled(0, 20);
    hk_os_fail_after(n);
    allocate_all();
    hk_os_fail_after(-1);
    CHECK((n > 0 || refusals > 0) && (n < LAST_N || refusals < BLOCKS / 2));
    check_and_free_all();
    CHECK(in_use_settled(before, 5000) <= before);
    refusals = 0;
    allocate_all(); /* the refusals left nothing behind */
    CHECK_EQ(refusals, 0);
    /* blocks can be freed without the system's help */
    hk_os_fail_after(n);
    check_and_free_all();
    hk_os_fail_after(-1);
    CHECK(in_use_settled(before, 5000) <= before);
}

/* ... and from a new thread, whose record may be refused as well. */
static pthread_barrier_t barrier;

static void *late_thread(void *argument) {
    pthread_barrier_wait(&barrier);
    hk_os_fail_after(*(long *)argument);
    allocate_all();
    hk_os_fail_after(-1);
    check_and_free_all();
    refusals = 0;
    allocate_all();
    CHECK_EQ(refusals, 0);
    check_and_free_all();
    return NULL;
}

static void fail_after_in_thread(void *argument) {
    pthread_t thread;
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, late_thread, argument) == 0);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void) {
    static child_t child;
    static void (*const runs[])(void *) = {fail_after, fail_after_in_thread};
    for (unsigned r = 0; r < 2; r++)
        for (long n = 0; n <= LAST_N; n += r != 0 ? 6 : n < 8 || !HK_NO_OVERRIDE ? 1 : 4) {
            child_run(&child, runs[r], &n);
            if (child.text[0] != '\0' || child.status != 0)
                dprintf(STDERR_FILENO, "with the system refusing from call %ld on:\n%s", n,
                        child.text);
            CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
        }
    return 0;
}

#else

int main(void) { return unit_skip("only a debug build can make the system refuse"); }

#endif
