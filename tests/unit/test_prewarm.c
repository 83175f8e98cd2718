/* Prewarming and the sizes of magazines: the blocks in a thread's cache before its first allocation, and the
 * magazines' capacities, as the options ask for. */
#include <pthread.h>

#include "check.h"
#include "config/config.h"
#include "front/boundary.h"
#include "front/magazine.h"
#include "hakmem/hakmem.h"

enum { BANDS = 8 };

static hk_thread_t *own_record(void) { return hk_load_relaxed(&hk_tc)->thread; }

/* Runs `check` in a new thread that has its record and has not allocated. */
typedef void check_fn(void);
static check_fn *check;

static void *start(void *unused) {
    hk_thread_leave(hk_thread_enter());
    check();
    return unused;
}

static void in_thread(check_fn *fn) {
    pthread_t id;
    check = fn;
    CHECK(pthread_create(&id, NULL, start, NULL) == 0);
    CHECK(pthread_join(id, NULL) == 0);
}

/* ---- prewarm ---- */

static unsigned expected[BANDS]; /* blocks of each class, by band; main writes */

/* Each class has its band's number of blocks, limited by its magazine and by the budget that smaller classes left.
 * malloc gets these blocks from the magazine, each of the right class. */
static void has_what_was_asked_for(void) {
    hk_thread_t *thread = own_record();
    size_t budget = hk_option(tcache_kb) * HK_KIB;
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        const hk_class_t *c = &hk_classes[cls];
        unsigned blocks = c->band < BANDS ? expected[c->band] : 0;
        blocks = (unsigned)hk_min(hk_min(blocks, c->refill), budget / c->size);
        budget -= (size_t)blocks * c->size;
        CHECK_EQ(hk_magazine_count(thread, cls), blocks);
    }
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        for (unsigned left = hk_magazine_count(thread, cls); left-- != 0;) {
            void *p = hak_malloc(hk_classes[cls].size);
            CHECK_EQ(hk_map_kind(p), cls);
            CHECK_EQ(hk_magazine_count(thread, cls), left);
            memset(p, 1, hk_classes[cls].size);
        }
}

enum { NOT_SET = -1 };

static void prewarm(unsigned all, const int own[BANDS], bool lean) {
#define OPTION(n)                                                                                  \
    { &hk_config.prewarm_c##n, &hk_origins[HK_OPTION_prewarm_c##n] }
    const struct {
        _Atomic uint64_t *value;
        _Atomic uint8_t *origin;
    } options[BANDS] = {OPTION(0), OPTION(1), OPTION(2), OPTION(3),
                        OPTION(4), OPTION(5), OPTION(6), OPTION(7)};
#undef OPTION
    hk_store_relaxed(&hk_config.lean, lean);
    hk_store_relaxed(&hk_config.prewarm_all, all);
    for (unsigned band = 0; band < BANDS; band++) {
        bool set = own[band] != NOT_SET;
        hk_store_relaxed(options[band].value, (uint64_t)(set ? own[band] : 0));
        hk_store_relaxed(options[band].origin, (uint8_t)(set ? HK_FROM_PROFILE : HK_FROM_DEFAULT));
        expected[band] = lean ? 0 : set ? (unsigned)own[band] : all;
    }
    hk_trim(); /* else the new thread may get a record that kept its magazines */
    in_thread(has_what_was_asked_for);
    hk_trim();
    in_thread(has_what_was_asked_for); /* reuses the record of the thread before */
}

/* ---- sizes ---- */

static unsigned capacity(unsigned cls) { return own_record()->magazines[cls].capacity; }

static void full_from_start(void) {
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        CHECK_EQ(capacity(cls), hk_classes[cls].band < BANDS ? hk_classes[cls].refill : 0);
}

static void within_budget(void) {
    size_t bytes = 0;
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        bytes += (size_t)capacity(cls) * hk_classes[cls].size;
    CHECK(bytes <= hk_option(tcache_kb) * HK_KIB);
    CHECK_EQ(own_record()->allotted, bytes);
    hak_free(hak_malloc(HK_MID_MAX)); /* a class used late still gets room */
    CHECK(capacity(HK_CLASS_FIXED - 1) > 0);
}

static void full_at_first_use(void) {
    for (unsigned cls = 1; cls <= 21; cls++) {
        CHECK_EQ(capacity(cls), 0);
        hak_free(hak_malloc(hk_classes[cls].size));
        CHECK_EQ(capacity(cls), hk_classes[cls].refill);
    }
}

static void grows(void) {
    unsigned cls = hk_class_of(64);
    CHECK_EQ(capacity(cls), 0);
    hak_free(hak_malloc(64));
    CHECK(capacity(cls) > 0 && (HK_HOSTILE || capacity(cls) < hk_classes[cls].magazine));
}

/* Prefetching has no visible effect; this only checks that blocks keep their contents with it. */
static void blocks_are_whole(void) {
    enum { BLOCKS = 2000 };
    static unsigned char *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_malloc(1 + i % 1000);
        memset(blocks[i], (int)(i & 255), 1 + i % 1000);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK_EQ(blocks[i][0], i & 255);
        CHECK_EQ(blocks[i][i % 1000], i & 255);
        hak_free(blocks[i]);
    }
}

static void sizes(void *unused) {
    (void)unused;
    in_thread(grows);
    hk_store_relaxed(&hk_config.tcache_adaptive, 0);
    in_thread(full_at_first_use);
    hk_store_relaxed(&hk_config.tcache_adaptive, 1);
    hk_store_relaxed(&hk_config.tiny_profile, 1);
    in_thread(full_from_start);
    hk_store_relaxed(&hk_config.tcache_kb, 64);
    in_thread(within_budget);
    hk_store_relaxed(&hk_config.tcache_prefetch, 1);
    in_thread(blocks_are_whole);
}

static void prewarms(void *unused) {
    (void)unused;
    enum { NO = NOT_SET };
    prewarm(0, (int[BANDS]){NO, NO, 128, 128, 64, 64, NO, NO}, false);
    prewarm(100, (int[BANDS]){5, NO, 0, 7, NO, NO, NO, 3}, false);
    prewarm(4096, (int[BANDS]){NO, NO, NO, NO, 1, NO, NO, NO}, false);
    prewarm(100, (int[BANDS]){5, NO, NO, NO, NO, NO, NO, NO}, true);
    prewarm(0, (int[BANDS]){NO, NO, NO, NO, NO, NO, NO, NO}, false);
    hk_store_relaxed(&hk_config.tcache_kb, 64);
    in_thread(has_what_was_asked_for); /* as the thread ends its record gets the new budget */
    prewarm(0, (int[BANDS]){NO, NO, NO, NO, NO, 64, NO, NO}, false);
    prewarm(0, (int[BANDS]){NO, NO, NO, NO, NO, NO, NO, 64}, false);
    prewarm(4096, (int[BANDS]){NO, NO, NO, NO, NO, NO, NO, NO}, false);
    hk_store_relaxed(&hk_config.tiny_profile, 1); /* full capacities are set after prewarming */
    prewarm(0, (int[BANDS]){NO, NO, NO, NO, NO, 64, NO, NO}, false);
}

/* ---- the first thread, by the environment ---- */

static char self[] = "/proc/self/exe";

static void exec_prewarmed(void *lean) {
    static char prewarm_all[] = "HAKMEM_TINY_PREWARM_ALL=12";
    static char lean_option[] = "HAKMEM_SS_MEM_LEAN=0";
    lean_option[sizeof lean_option - 2] = *(const char *)lean;
    char *environment[] = {lean_option, prewarm_all, NULL};
    execle(self, "test_prewarm", lean, (char *)NULL, environment);
    _exit(127);
}

/* The first thread is prewarmed too, although the C library or a constructor may have allocated before the options
 * were known. */
static int first_thread(bool lean) {
    hk_thread_leave(hk_thread_enter());
    size_t blocks[HK_CLASS_COUNT];
    hk_threads_held(blocks);
    for (unsigned cls = hk_class_of(257); cls <= hk_class_of(512); cls++)
        CHECK(lean ? blocks[cls] < 12 : blocks[cls] == (HK_HOSTILE ? 2 : 12));
    return 0;
}

/* ---- warnings about blocks that a thread cannot have ---- */

/* dprintf allocates, so all counts are read before anything is printed. */
static void print_held(void) {
    unsigned held[HK_CLASS_FIXED];
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        held[cls] = hk_magazine_count(own_record(), cls);
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        if (held[cls] != 0)
            dprintf(STDOUT_FILENO, "%u:%u ", hk_classes[cls].size, held[cls]);
}

static void exec_short(void *environment) {
    execle(self, "test_prewarm", "what", "is held", (char *)NULL, (char **)environment);
    _exit(127);
}

/* A process with this environment prints `lines`, then the blocks that a thread of it holds; held NULL: not compared. */
static void check_short(char *const *environment, const char *lines, const char *held) {
    static child_t child;
    char text[1024];
#ifndef __GLIBC__ /* pthread_atfork takes a block in other C libraries */
    held = NULL;
#endif
    snprintf(text, sizeof text, "%s%s", lines, held != NULL ? held : "");
    child_run(&child, exec_short, (void *)(uintptr_t)environment);
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    if (held == NULL) {
        char *last = strrchr(child.text, '\n');
        *(last != NULL ? last + 1 : child.text) = '\0';
    }
    CHECK_TEXT(child.text, text);
}

#define C(band) "HAKMEM_TINY_PREWARM_C" #band
#define NOT_LEAN "HAKMEM_SS_MEM_LEAN=0"
#define SMALL_BUDGET "HAKMEM_TCACHE_KB=64"
#define WARNS "hakmem: warning: HAKMEM_TINY_PREWARM_"

static void shortages(void) {
    static const struct {
        char *environment[5];
        const char *lines, *held;
    } cases[] = {
        {{C(7) "=64", NOT_LEAN}, "", "640:64 768:64 896:64 1024:64 "},
        {{C(7) "=100", NOT_LEAN},
         WARNS "C7=100: a magazine holds no more; a thread has 85 blocks of 768 bytes, 73 of 896, "
               "64 of 1024\n",
         "640:100 768:85 896:73 1024:64 "},
        {{C(3) "=4096", NOT_LEAN},
         WARNS "C3=4096: a magazine holds no more; a thread has 256 blocks of 48 bytes, 256 of "
               "64\n",
         "48:256 64:256 "},
        {{C(7) "=50", NOT_LEAN, SMALL_BUDGET},
         WARNS "C7=50: HAKMEM_TCACHE_KB=64 holds no more; a thread has 43 blocks of 768 bytes, 0 "
               "of 896, 0 of 1024\n",
         "640:50 768:43 "},
        {{C(6) "=300", C(7) "=1", NOT_LEAN, SMALL_BUDGET},
         WARNS "C6=300: a magazine and HAKMEM_TCACHE_KB=64 hold no more; a thread has 204 blocks "
               "of 320 bytes, 0 of 384, 0 of 448, 0 of 512\n" WARNS
               "C7=1: HAKMEM_TCACHE_KB=64 holds no more; a thread has 0 blocks of 640 bytes, 0 of "
               "768, 0 of 896, 0 of 1024\n",
         "320:204 "},
        {{"HAKMEM_TINY_PREWARM_ALL=72", C(7) "=1", NOT_LEAN}, "", NULL},
        {{"HAKMEM_TINY_PREWARM_ALL=72", NOT_LEAN},
         WARNS "ALL=72: a magazine holds no more; a thread has 64 blocks of 1024 bytes\n",
         NULL},
        {{"HAKMEM_PROFILE=speed"}, "", NULL},
        {{"HAKMEM_PROFILE=bench"}, "", NULL},
        {{"HAKMEM_PROFILE=bench", "HAKMEM_TCACHE_KB=96"}, "", NULL},
        {{"HAKMEM_PROFILE=speed", "HAKMEM_TCACHE_KB=95"},
         WARNS "C5=64: HAKMEM_TCACHE_KB=95 holds no more; a thread has 60 blocks of 256 bytes\n",
         NULL},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_short(cases[i].environment, cases[i].lines, cases[i].held);
}

static void passes(void (*fn)(void *), char *argument) {
    static child_t child;
    child_run(&child, fn, argument);
    dprintf(STDOUT_FILENO, "%s", child.text);
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

int main(int argc, char **argv) {
    if (argc == 2)
        return first_thread(argv[1][0] == '1');
    if (argc == 3)
        in_thread(print_held);
    if (argc != 1)
        return 0;
    passes(prewarms, NULL);
    passes(sizes, NULL);
    static char on[] = "1", off[] = "0";
    passes(exec_prewarmed, on);
    passes(exec_prewarmed, off);
    if (!HK_HOSTILE) /* a hostile build has other magazines and another budget */
        shortages();
    return 0;
}
