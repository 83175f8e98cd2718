/* Threads against each other: blocks change hands through a shared table, so that most are freed by a thread that did
 * not allocate them; threads end with live blocks, and others adopt their heaps. The contents of each block show
 * whether it was given out twice, or written to by the allocator. */
#include <pthread.h>

#include "backend/heap.h"
#include "check.h"
#include "front/boundary.h"
#include "hakmem/hakmem.h"
#include "in_use.h"
#include "purge_all.h"

#if defined(__SANITIZE_THREAD__)
enum { STEPS = 14000 };
#elif defined(__SANITIZE_ADDRESS__)
enum { STEPS = 40000 };
#else
enum { STEPS = 100000 };
#endif
enum { THREADS = 4, GENERATIONS = 6, PLACES = 2000, OWN = 300 };

/* At the start of every block; its last byte holds the low byte of the seed as well. */
typedef struct {
    size_t n;
    uint64_t seed;
} head_t;

static _Atomic(head_t *) table[PLACES]; /* atomic: the thread that takes a block out owns it */
static atomic_ulong handed_over;

static head_t *make(uint64_t *state) {
    unsigned dice = chance_below(state, 1000);
    size_t n = dice < 2     ? HK_UNIT + chance_below(state, 3 * HK_UNIT)
               : dice < 20  ? HK_MID_MAX + chance_below(state, 600000)
               : dice < 200 ? sizeof(head_t) + 1 + chance_below(state, HK_MID_MAX - 17)
                            : sizeof(head_t) + 1 + chance_below(state, 600);
    head_t *head = hak_malloc(n);
    CHECK(head != NULL);
    *head = (head_t){n, chance(state)};
    ((unsigned char *)head)[n - 1] = (unsigned char)head->seed;
    if (n <= 1024)
        memset(head + 1, (int)(unsigned char)head->seed, n - sizeof *head);
    return head;
}

static void check_block(const head_t *head) {
    const unsigned char *bytes = (const unsigned char *)head;
    CHECK(head->n > sizeof *head && head->n <= 4 * HK_UNIT);
    for (size_t i = head->n <= 1024 ? sizeof *head : head->n - 1; i < head->n; i++)
        CHECK_EQ(bytes[i], (unsigned char)head->seed);
}

static void drop(head_t *head) {
    if (head == NULL)
        return;
    check_block(head);
    hak_free(head);
}

static head_t *resize(head_t *head, uint64_t *state) {
    check_block(head);
    size_t n = sizeof *head + 1 + chance_below(state, 2000);
    if (head->n > HK_UNIT)
        n += head->n;
    head_t old = *head;
    head = hak_realloc(head, n);
    CHECK(head != NULL && head->seed == old.seed && head->n == old.n);
    head->n = n;
    memset(head + 1, (int)(unsigned char)head->seed, hk_min(n, 1024) - sizeof *head);
    ((unsigned char *)head)[n - 1] = (unsigned char)head->seed;
    return head;
}

static void *work(void *argument) {
    uint64_t state = (uint64_t)(uintptr_t)argument * 0x9e3779b97f4a7c15u + 1;
    head_t *own[OWN] = {NULL};
    unsigned long gifts = 0;
    /* some threads end early: the others adopt their slabs */
    unsigned steps = STEPS / (1 + (unsigned)(uintptr_t)argument % THREADS);
    for (unsigned step = 0; step < steps; step++) {
        unsigned i = chance_below(&state, OWN), dice = chance_below(&state, 100);
        if (dice < 50) { /* exchange a block with another thread */
            head_t *mine = own[i] != NULL ? own[i] : make(&state);
            own[i] = atomic_exchange(&table[chance_below(&state, PLACES)], mine);
            gifts += own[i] != NULL;
        } else if (dice < 90) {
            drop(own[i]);
            own[i] = dice < 70 ? make(&state) : NULL;
        } else if (own[i] != NULL) {
            own[i] = resize(own[i], &state);
        }
        if (step % 5000 == 4999)
            hk_trim();
    }
    for (unsigned i = 0; i < OWN; i++) /* half of them outlive their thread, in the table */
        drop(i % 2 == 0 || own[i] == NULL
                 ? own[i]
                 : atomic_exchange(&table[chance_below(&state, PLACES)], own[i]));
    atomic_fetch_add(&handed_over, gifts);
    return NULL;
}

/* Every other generation is a small one, so that it cannot take over all orphans. */
static void generation(uintptr_t number) {
    pthread_t threads[THREADS];
    unsigned n = number % 2 == 0 ? THREADS : THREADS / 2;
    for (uintptr_t i = 0; i < n; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(number * THREADS + i)) == 0);
    for (unsigned i = 0; i < n; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void empty_table(void) {
    for (unsigned i = 0; i < PLACES; i++)
        drop(atomic_exchange(&table[i], NULL));
    hk_trim();
}

/* ---- many threads free the blocks of one ---- */

enum { SHARED = 8192, ROUNDS = STEPS / 800 };
static void *shared[SHARED];
static pthread_barrier_t barrier;

/* Neighbouring blocks are freed by different threads at the same time: their bits share a word. */
static void *free_share(void *argument) {
    uintptr_t first = (uintptr_t)argument;
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        for (size_t i = first; i < SHARED; i += THREADS)
            hak_free(shared[i]);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void free_together(void) {
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, free_share, (void *)i) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SHARED; i++) {
            shared[i] = hak_malloc(64);
            CHECK(shared[i] != NULL);
            *(void **)shared[i] = shared[i];
        }
        for (unsigned i = 0; i < SHARED; i++)
            CHECK(*(void **)shared[i] == shared[i]); /* none was given out twice */
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(pthread_barrier_destroy(&barrier) == 0);
}

/* ---- trimming while superslabs come and go ---- */

static atomic_bool trimming;

static void *trim(void *unused) {
    while (atomic_load(&trimming))
        purge_all();
    return unused;
}

/* Blocks of a superslab each, or larger; each keeps its contents while another thread purges. */
static void *empty_superslabs(void *argument) {
    enum { BLOCKS = 3, EVERY = 4 * (int)HK_SLICE };
    uint64_t state = (uint64_t)(uintptr_t)argument + 1;
    for (unsigned round = 0; round < STEPS / 8; round++) {
        char *blocks[BLOCKS];
        size_t sizes[BLOCKS];
        for (unsigned i = 0; i < BLOCKS; i++) {
            sizes[i] = HK_UNIT + chance_below(&state, 2) * HK_UNIT / 2;
            blocks[i] = hak_malloc(sizes[i]);
            CHECK(blocks[i] != NULL);
            for (size_t at = 0; at < sizes[i]; at += EVERY)
                blocks[i][at] = (char)(i + 1);
        }
        for (unsigned i = 0; i < BLOCKS; i++) {
            for (size_t at = 0; at < sizes[i]; at += EVERY)
                CHECK(blocks[i][at] == (char)(i + 1));
            hak_free(blocks[i]);
        }
    }
    return NULL;
}

static void trim_against_free(void) {
    pthread_t trimmer, users[2];
    atomic_store(&trimming, true);
    CHECK(pthread_create(&trimmer, NULL, trim, NULL) == 0);
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&users[i], NULL, empty_superslabs, (void *)i) == 0);
    for (unsigned i = 0; i < 2; i++)
        CHECK(pthread_join(users[i], NULL) == 0);
    atomic_store(&trimming, false);
    CHECK(pthread_join(trimmer, NULL) == 0);
}

int main(void) {
    generation(0); /* first, as the C library keeps memory for each thread */
    free_together();
    empty_table();
    size_t before = in_use_settled(0, 200);
    for (uintptr_t g = 1; g <= GENERATIONS; g++)
        generation(g);
    CHECK(atomic_load(&handed_over) > STEPS);
    free_together();
    trim_against_free();
    empty_table();
    /* all freed memory is free again, whichever heap owned it */
    CHECK_EQ(in_use_settled(before, 5000), before);
    printf("%lu blocks changed hands\n", atomic_load(&handed_over));
    return 0;
}
