/* Front metrics: the totals must equal the calls made, with every set of layers, across threads and
 * their ends; a fork's child starts at 0; the CSV at exit shows the same totals. */
#include <fcntl.h>
#include <pthread.h>

#include "check.h"
#include "front/observed.h"
#include "front/watched.h"
#include "hakmem/hakmem.h"
#include "layers.h"
#include "magazines.h"

enum { ALL_LAYERS = HK_LAYER_BIT(HK_LAYER_HEAP) - 1 };

/* Calls per band: made by a piece of work, or counted. */
typedef struct {
    uint64_t mallocs[HK_BAND_COUNT], frees[HK_BAND_COUNT];
} tally_t;

/* A size that the class serves. */
static size_t size_of(unsigned cls) { return hk_classes[cls].size - cls % 3; }

enum { HELD = 150 };

/* Allocates and frees blocks of one class per round, so many that magazines and layers run empty and
 * full; adds the calls to the tally. */
static void work(unsigned rounds, tally_t *tally) {
    static _Thread_local void *blocks[HELD];
    for (unsigned round = 0; round < rounds; round++) {
        unsigned cls = 1 + round % (HK_CLASS_FIXED - 1);
        unsigned n = hk_classes[cls].size > 4096 ? HELD / 10 : HELD;
        for (unsigned i = 0; i < n; i++)
            CHECK((blocks[i] = hak_malloc(size_of(cls))) != NULL);
        for (unsigned i = 0; i < n; i++)
            hak_free(blocks[i]);
        tally->mallocs[hk_classes[cls].band] += n;
        tally->frees[hk_classes[cls].band] += n;
    }
}

static hk_metrics_sum_t now(void) {
    hk_metrics_sum_t sum;
    CHECK(hk_front_metrics(&sum));
    return sum;
}

/* Lists the layers that serve the band under this plan, first to last, the heap at the end. */
static unsigned way(unsigned plan, unsigned band, hk_layer_t *out) {
    unsigned n = 0;
    for (hk_layer_t layer = 0; layer < HK_LAYER_HEAP; layer++)
        if ((plan & hk_layers_of_band[band] & HK_LAYER_BIT(layer)) != 0)
            out[n++] = layer;
    out[n++] = HK_LAYER_HEAP;
    return n;
}

static uint64_t since(const hk_metrics_sum_t *a, const hk_metrics_sum_t *b, hk_layer_t layer,
                      unsigned band, hk_event_t event) {
    return b->n[layer][band][event] - a->n[layer][band][event];
}

/* The first layer must have counted all calls, each next one the misses of the one before, and the heap
 * must have missed none; layers that are off must have counted nothing. */
static void check_band(const hk_metrics_sum_t *a, const hk_metrics_sum_t *b, unsigned plan,
                       unsigned band, uint64_t mallocs, uint64_t frees) {
    hk_layer_t order[HK_LAYER_COUNT];
    unsigned n = way(plan, band, order), on = 0;
    for (unsigned i = 0; i < n; i++) {
        on |= HK_LAYER_BIT(order[i]);
        uint64_t missed = since(a, b, order[i], band, HK_MALLOC_MISS);
        CHECK_EQ(since(a, b, order[i], band, HK_MALLOC_HIT) + missed, mallocs);
        mallocs = missed;
        missed = since(a, b, order[i], band, HK_FREE_MISS);
        CHECK_EQ(since(a, b, order[i], band, HK_FREE_HIT) + missed, frees);
        frees = missed;
        uint64_t times =
            since(a, b, order[i], band, HK_REFILL) + since(a, b, order[i], band, HK_FLUSH);
        CHECK(since(a, b, order[i], band, HK_MOVED) >= times);
    }
    CHECK_EQ(mallocs, 0);
    CHECK_EQ(frees, 0);
    for (hk_layer_t layer = 0; layer < HK_LAYER_COUNT; layer++)
        for (unsigned event = 0; event < HK_EVENT_COUNT; event++)
            CHECK((on & HK_LAYER_BIT(layer)) != 0 || since(a, b, layer, band, event) == 0);
}

static void check_counted(const hk_metrics_sum_t *before, unsigned plan, const tally_t *done) {
    hk_metrics_sum_t after = now();
    for (unsigned band = 0; band < HK_BAND_COUNT; band++)
        check_band(before, &after, plan, band, done->mallocs[band], done->frees[band]);
}

/* ---- one thread ---- */

/* Every set of layers; between the sets, with metrics off, nothing must be counted. */
static void every_set(void) {
    for (unsigned set = 0; set < 1 << 6; set++) {
        unsigned plan = (set & ALL_LAYERS) | HK_PLAN_METRICS;
        if ((set & 1 << 5) != 0)
            plan |= HK_PLAN_PASSDOWN | HK_PLAN_C7_BOUND;
        tally_t done = {0}, unseen = {0};
        hk_metrics_sum_t before = now();
        set_plan(plan);
        work(90, &done);
        check_counted(&before, plan, &done);
        set_plan(plan_of_the_product);
        before = now();
        work(45, &unseen);
        check_counted(&before, plan, &(tally_t){0});
        if (set % 2 == 0)
            hk_trim();
    }
}

/* realloc that moves is a malloc and a free; calloc and aligned_alloc are mallocs; blocks of no
 * class and NULL are not counted. */
static void other_calls(void) {
    const unsigned plan = plan_of_the_product | HK_PLAN_METRICS;
    hk_metrics_sum_t before = now();
    set_plan(plan);
    void *p = hak_malloc(100);
    p = hak_realloc(p, 300);
    p = hak_realloc(p, 310); /* stays in place: not counted */
    hak_free(p);
    hak_free(hak_calloc(4, 5));
    hak_free(hak_aligned_alloc(64, 64));
    hak_free(hak_malloc(100000));
    hak_free(NULL);
    check_counted(&before, plan,
                  &(tally_t){.mallocs = {[2] = 1, [3] = 1, [4] = 1, [6] = 1},
                             .frees = {[2] = 1, [3] = 1, [4] = 1, [6] = 1}});
    set_plan(plan_of_the_product);
}

/* ---- the short way ---- */

static void ignore(void **own, void *p, const hk_told_t *told) { (void)own, (void)p, (void)told; }

/* Where the thread's trap says that operations are only counted; NULL: it does not say so. */
static hk_observed_t *counted(void) {
    hk_thread_rest_t *rest = hk_load_acquire(&own_record()->rest);
    hak_free(hak_malloc(100)); /* the thread acts on its plan */
    return rest != NULL ? hk_load_seq(&rest->trap.counted) : NULL;
}

static void short_way(void) {
    static const hk_watcher_t watcher = {ignore, ignore, NULL, NULL};
    CHECK(counted() == NULL);
    set_plan(plan_of_the_product | HK_PLAN_METRICS);
    CHECK(counted() == own_record()->observed);
    CHECK(hk_watch(HK_WATCH_RECORD, &watcher));
    CHECK(counted() == NULL);
    CHECK(hk_watch(HK_WATCH_RECORD, NULL)); /* the plan is not new */
    CHECK(counted() == own_record()->observed);
    set_plan(plan_of_the_product | HK_PLAN_METRICS | HK_LAYER_BIT(HK_LAYER_SLL));
    CHECK(counted() == NULL);
    set_plan(plan_of_the_product);
    CHECK(counted() == NULL);
}

/* ---- threads ---- */

#ifdef __SANITIZE_THREAD__
enum { LAST_ROUND = 3 }; /* of PTHREAD_DESTRUCTOR_ITERATIONS; see test_trap.c */
#else
enum { LAST_ROUND = 4 };
#endif
enum { THREADS = 4, ROUNDS = 60 };

static pthread_key_t late;
static tally_t late_done; /* lock: late_lock */
static pthread_mutex_t late_lock = PTHREAD_MUTEX_INITIALIZER;

static void late_work(void *left) {
    uintptr_t rounds = (uintptr_t)left;
    if (rounds > 1) {
        CHECK(pthread_setspecific(late, (void *)(rounds - 1)) == 0);
        return;
    }
    pthread_mutex_lock(&late_lock);
    work(20, &late_done);
    pthread_mutex_unlock(&late_lock);
}

typedef struct {
    unsigned rounds;
    tally_t done;
} life_t;

static void *live(void *argument) {
    life_t *life = argument;
    work(life->rounds, &life->done);
    if (life->rounds != 0)
        CHECK(pthread_setspecific(late, (void *)LAST_ROUND) == 0);
    return NULL;
}

static void add(tally_t *sum, const tally_t *more) {
    for (unsigned band = 0; band < HK_BAND_COUNT; band++) {
        sum->mallocs[band] += more->mallocs[band];
        sum->frees[band] += more->frees[band];
    }
}

/* Runs a generation of threads to their ends. Returns what the first layers counted meanwhile; *done
 * receives what the threads did. */
static tally_t generation(unsigned plan, unsigned rounds, tally_t *done) {
    pthread_t ids[THREADS];
    life_t lives[THREADS] = {0};
    tally_t asked = {0};
    memset(&late_done, 0, sizeof late_done);
    hk_metrics_sum_t before = now();
    for (unsigned i = 0; i < THREADS; i++) {
        lives[i].rounds = rounds * (i + 1);
        CHECK(pthread_create(&ids[i], NULL, live, &lives[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(ids[i], NULL) == 0);
    hk_metrics_sum_t after = now();
    for (unsigned band = 0; band < HK_BAND_COUNT; band++) {
        hk_layer_t order[HK_LAYER_COUNT];
        way(plan, band, order);
        asked.mallocs[band] = since(&before, &after, order[0], band, HK_MALLOC_HIT) +
                              since(&before, &after, order[0], band, HK_MALLOC_MISS);
        asked.frees[band] = since(&before, &after, order[0], band, HK_FREE_HIT) +
                            since(&before, &after, order[0], band, HK_FREE_MISS);
    }
    *done = late_done;
    for (unsigned i = 0; i < THREADS; i++)
        add(done, &lives[i].done);
    return asked;
}

/* Fails if calls of ended threads are missing or counted twice. The C library's own calls for a
 * generation are always the same, so an idle one shows them. */
static void threads(unsigned plan) {
    tally_t nothing, done;
    set_plan(plan);
    generation(plan, ROUNDS, &done);
    tally_t idle = generation(plan, 0, &nothing);
    tally_t asked = generation(plan, ROUNDS, &done);
    add(&done, &idle);
    for (unsigned band = 0; band < HK_BAND_COUNT; band++) {
        CHECK(done.mallocs[band] != 0);
        CHECK_EQ(asked.mallocs[band], done.mallocs[band]);
        CHECK_EQ(asked.frees[band], done.frees[band]);
    }
    set_plan(plan_of_the_product);
}

/* ---- processes ---- */

static void in_child(void *plan) {
    tally_t done = {0};
    hk_metrics_sum_t inherited = {0};
    work(40, &done);
    check_counted(&inherited, *(unsigned *)plan, &done);
}

static void child_starts_anew(void) {
    static child_t child;
    unsigned plan = plan_of_the_product | HK_PLAN_METRICS | HK_LAYER_BIT(HK_LAYER_SLL);
    tally_t done = {0};
    set_plan(plan);
    work(40, &done);
    child_run(&child, in_child, &plan);
    CHECK_TEXT(child.text, "");
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    set_plan(plan_of_the_product);
}

enum { DUMPED_BYTES = 5000 };

static void *exit_here(void *unused) {
    (void)unused;
    exit(0);
}

/* The program that dumps: makes `mallocs` mallocs and frees of a size that the C library does not use,
 * prints its process number, and calls exit() on a second thread. */
static int dumping(const char *mallocs) {
    pthread_t id;
    void *p = NULL;
    for (unsigned long i = strtoul(mallocs, NULL, 10); i > 0; i--)
        hak_free(p = hak_malloc(DUMPED_BYTES));
    dprintf(STDOUT_FILENO, "%d\n", (int)getpid());
    CHECK(pthread_create(&id, NULL, exit_here, NULL) == 0);
    pthread_join(id, NULL);
    return 1;
}

static char dump_to[256];
static const char *how_many;

static void exec_dumping(void *unused) {
    static char self[] = "/proc/self/exe", metrics[] = "HAKMEM_TINY_FRONT_METRICS=1";
    char *environment[] = {metrics, dump_to, NULL};
    (void)unused;
    execle(self, "test_front_metrics", how_many, (char *)NULL, environment);
    _exit(127);
}

static child_t *dump(const char *target, const char *mallocs) {
    static child_t child;
    snprintf(dump_to, sizeof dump_to, "HAKMEM_TINY_FRONT_DUMP=%s", target);
    how_many = mallocs;
    child_run(&child, exec_dumping, NULL);
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    return &child;
}

static const char names[] =
    "pid,band,layer,malloc_hits,malloc_misses,malloc_hit_rate,free_hits,free_misses,free_hit_rate,"
    "refills,flushes,blocks_moved\n";

/* Checks the CSV and returns the mallocs that the magazines were asked for above 1 KiB. */
static unsigned long check_csv(const char *csv, int pid) {
    char start[64];
    CHECK(strncmp(csv, names, sizeof names - 1) == 0);
    snprintf(start, sizeof start, "\n%d,mid,heapv2,", pid);
    const char *row = strstr(csv, start);
    CHECK(row != NULL);
    unsigned long hits, misses, free_hits, free_misses, refills, flushes, moved;
    char rate[16], free_rate[16], end, expected[16];
    CHECK(sscanf(row + strlen(start), "%lu,%lu,%15[^,],%lu,%lu,%15[^,],%lu,%lu,%lu%c", &hits,
                 &misses, rate, &free_hits, &free_misses, free_rate, &refills, &flushes, &moved,
                 &end) == 10);
    CHECK_EQ(end, '\n');
    CHECK_EQ(free_hits + free_misses, hits + misses);
    snprintf(expected, sizeof expected, "%lu.%04lu", hits / (hits + misses),
             hits * 10000 / (hits + misses) % 10000);
    CHECK_TEXT(rate, expected);
    CHECK(misses > 0 && refills == misses && moved >= refills && flushes == 0);
    snprintf(start, sizeof start, "\n%d,mid,heap,%lu,0,1.0000,0,0,,0,0,0\n", pid, misses);
    CHECK(strstr(csv, start) != NULL);
    return hits + misses;
}

static void read_file(const char *path, char *text, size_t room) {
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    ssize_t n = read(fd, text, room - 1);
    CHECK(n > 0 && (size_t)n < room - 1);
    text[n] = '\0';
    CHECK(close(fd) == 0);
}

static void dumps(void) {
    static char text[8192];
    child_t *child = dump("1", "1000"); /* stderr, after the number on stdout */
    char *csv;
    long pid = strtol(child->text, &csv, 10);
    unsigned long fewer = check_csv(csv + 1, (int)pid);
    child = dump("1", "3000");
    pid = strtol(child->text, &csv, 10);
    CHECK_EQ(check_csv(csv + 1, (int)pid), fewer + 2000);

    char folder[] = "/tmp/front_metrics_XXXXXX", path[64], target[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(target, sizeof target, "%s/of_%%p.csv", folder);
    child = dump(target, "3000");
    pid = strtol(child->text, &csv, 10);
    CHECK_TEXT(csv, "\n");
    snprintf(path, sizeof path, "%s/of_%ld.csv", folder, pid);
    read_file(path, text, sizeof text);
    CHECK_EQ(check_csv(text, (int)pid), fewer + 2000);
    CHECK(unlink(path) == 0 && rmdir(folder) == 0);

    child = dump("0", "1");
    CHECK(strchr(child->text, ',') == NULL);
    child = dump("/nonexistent/x", "1");
    CHECK(strstr(child->text,
                 "hakmem: warning: HAKMEM_TINY_FRONT_DUMP=/nonexistent/x: No such file or "
                 "directory; no front metrics are written\n") != NULL);
    child = dump("/tmp", "1");
    CHECK(strstr(child->text, "=/tmp: Is a directory; no front metrics are written\n") != NULL);
}

int main(int argc, char **argv) {
    if (argc == 2)
        return dumping(argv[1]);
    const unsigned counted = plan_of_the_product | HK_PLAN_METRICS;
    hak_free(hak_malloc(1));
    CHECK(pthread_key_create(&late, late_work) == 0);
    every_set();
    other_calls();
    short_way();
    threads(counted);
    threads(counted | HK_PLAN_PASSDOWN);
    threads(counted | ALL_LAYERS | HK_PLAN_C7_BOUND | HK_PLAN_C7_EARLY);
    threads(HK_PLAN_METRICS);
    child_starts_anew();
    dumps();
    return 0;
}
