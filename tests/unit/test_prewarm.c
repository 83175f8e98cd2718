/* Prewarm and the sizes of magazines: what is in a thread's cache before its first allocation, and
 * how large it may get, as the options say. */
#include <pthread.h>

#include "check.h"
#include "config/config.h"
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

static unsigned expected[BANDS]; /* blocks of each band; between threads */

/* Each class has its even share of the band's blocks, as far as its magazine goes, and its blocks
 * are all different and the class's own. */
static void shares(void) {
    hk_thread_t *thread = own_record();
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++) {
        unsigned band = hk_classes[cls].band, first = cls, end = cls;
        while (hk_classes[first - 1].band == band && first > 1)
            first--;
        while (end < HK_CLASS_COUNT && hk_classes[end].band == band)
            end++;
        unsigned blocks = band < BANDS ? expected[band] : 0, classes = end - first;
        unsigned share = blocks / classes + (cls - first < blocks % classes);
        share = (unsigned)hk_min(share, hk_classes[cls].magazine);
        CHECK_EQ(hk_magazine_count(thread, cls), share);
        for (unsigned i = 0; i < share; i++) {
            void *p = hak_malloc(hk_classes[cls].size);
            CHECK_EQ(hk_map_kind(p), cls);
            CHECK_EQ(hk_magazine_count(thread, cls), share - i - 1);
            memset(p, 1, hk_classes[cls].size);
        }
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
    in_thread(shares);
    in_thread(shares); /* the record of the one before */
}

/* ---- sizes ---- */

static unsigned capacity(unsigned cls) { return own_record()->magazines[cls].capacity; }

static void full_from_start(void) {
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++)
        CHECK_EQ(capacity(cls), hk_classes[cls].band < BANDS ? hk_classes[cls].magazine : 0);
}

static void within_budget(void) {
    size_t bytes = 0;
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++)
        bytes += (size_t)capacity(cls) * hk_classes[cls].size;
    CHECK(bytes <= hk_option(tcache_kb) * HK_KIB);
    CHECK_EQ(own_record()->budget, hk_option(tcache_kb) * HK_KIB - bytes);
    hak_free(hak_malloc(HK_MID_MAX)); /* whoever comes late still finds room */
    CHECK(capacity(HK_CLASS_COUNT - 1) > 0);
}

static void full_at_first_use(void) {
    for (unsigned cls = 1; cls <= 21; cls++) {
        CHECK_EQ(capacity(cls), 0);
        hak_free(hak_malloc(hk_classes[cls].size));
        CHECK_EQ(capacity(cls), hk_classes[cls].magazine);
    }
}

static void grows(void) {
    unsigned cls = hk_class_of(64);
    CHECK_EQ(capacity(cls), 0);
    hak_free(hak_malloc(64));
    CHECK(capacity(cls) > 0 && (HK_HOSTILE || capacity(cls) < hk_classes[cls].magazine));
}

/* Prefetching can be measured, not seen: what comes out must be the same. */
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
    in_thread(full_from_start); /* its end gives the record the new budget */
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
}

/* ---- the first thread, by the environment ---- */

static void exec_prewarmed(void *lean) {
    static char self[] = "/proc/self/exe", prewarm_all[] = "HAKMEM_TINY_PREWARM_ALL=12";
    static char lean_option[] = "HAKMEM_SS_MEM_LEAN=0";
    lean_option[sizeof lean_option - 2] = *(const char *)lean;
    char *environment[] = {lean_option, prewarm_all, NULL};
    execle(self, "test_prewarm", lean, (char *)NULL, environment);
    _exit(127);
}

/* Here the C library or another constructor may have allocated before the options were known. */
static int first_thread(bool lean) {
    hk_thread_leave(hk_thread_enter());
    size_t blocks[HK_CLASS_COUNT], band_6 = 0;
    hk_threads_held(blocks);
    for (unsigned cls = hk_class_of(257); cls <= hk_class_of(512); cls++)
        band_6 += blocks[cls];
    CHECK(lean ? band_6 < 12 : band_6 == (HK_HOSTILE ? 8 : 12));
    return 0;
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
    passes(prewarms, NULL);
    passes(sizes, NULL);
    static char on[] = "1", off[] = "0";
    passes(exec_prewarmed, on);
    passes(exec_prewarmed, off);
    return 0;
}
