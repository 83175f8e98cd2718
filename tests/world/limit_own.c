// Under HAKMEM_LIMIT_MB=64 the process's own memory stays below it, whoever asks, and in whatever profile; beyond it
// the callback is called, then NULL and ENOMEM are the answer; and what was freed can be had again.
#include "process.h"
#include "statistics.h"

#define LIMIT (64 * MIB)
// The program's own, and metadata, which is never refused: with every check several times as much.
#define SLACK (16 * MIB)

typedef struct node {
    struct node *next;
} node_t;

// volatile: the compiler takes it for granted that malloc calls nobody back.
static node_t *volatile spare; // what the callback may free
static volatile unsigned calls;

static void *by_malloc(size_t n) { return malloc(n); }
static void *by_calloc(size_t n) { return calloc(1, n); }
static void *by_realloc(size_t n) {
    void *p = malloc(8), *q = realloc(p, n);
    if (q == NULL)
        free(p);
    return q;
}
static void *by_alignment(size_t n) {
    void *p = NULL;
    int error = posix_memalign(&p, 4096, n);
    CHECK(error == 0 || error == ENOMEM, "posix_memalign: %s", strerror(error));
    errno = error;
    return p;
}

static node_t *fill(void *(*take)(size_t), size_t n, size_t *bytes) {
    node_t *list = NULL;
    for (*bytes = 0;; *bytes += n) {
        errno = 0;
        node_t *node = take(n);
        if (node == NULL) {
            CHECK(errno == ENOMEM, "NULL with errno %d", errno);
            return list;
        }
        CHECK(*bytes <= LIMIT, "%zu MiB in blocks of %zu, beyond the limit", *bytes / MIB, n);
        memset(node, 1, n);
        node->next = list;
        list = node;
    }
}

static void drop(node_t *list) {
    for (node_t *next; list != NULL; list = next) {
        next = list->next;
        free(list);
    }
}

static void exhaust(void *(*take)(size_t), size_t n) {
    const uint64_t before = statistics().refused;
    size_t bytes;
    node_t *list = fill(take, n, &bytes);
    const hak_stats_t now = statistics();
    CHECK(bytes >= LIMIT / 4, "no more than %zu MiB in blocks of %zu", bytes / MIB, n);
    CHECK(process_rss() <= LIMIT + SLACK, "%zu MiB resident", process_rss() / MIB);
    CHECK(now.refused > before && now.limit == LIMIT && now.held <= LIMIT + SLACK,
          "refused %zu, limit %zu, held %zu", (size_t)now.refused, (size_t)now.limit,
          (size_t)now.held);
    drop(list);
}

static void callback(size_t wanted, void *context) {
    CHECK(wanted == 40 * MIB && context == &calls, "called with %zu and %p", wanted, context);
    calls++;
    drop(spare);
    spare = NULL;
}

static void recover(void) {
    int (*on_reached)(hak_limit_callback_t, void *);
    size_t bytes;
    WORLD_FIND(on_reached, "hak_limit_on_reached");
    spare = fill(by_malloc, 20000, &bytes);
    CHECK(on_reached(callback, (void *)&calls) == 0, "hak_limit_on_reached");
    void *p = malloc(40 * MIB);
    CHECK(p != NULL && calls == 1, "the callback freed all, and was called %u times", calls);
    CHECK(malloc(40 * MIB) == NULL && calls == 2, "the callback freed nothing: %u calls", calls);
    free(p);
    CHECK(on_reached(NULL, NULL) == 0, "no callback");
}

int main(void) {
    world_begin(100);
    if (!world_on_hakmem())
        world_skip("no limit of its own: this is not hakmem");
    static const size_t sizes[] = {24, 700, 9000, 60000, 500000, 3000000};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        exhaust(by_malloc, sizes[i]);
        exhaust(by_calloc, sizes[i]);
        exhaust(by_realloc, sizes[i]);
        exhaust(by_alignment, sizes[i] < 4096 ? 4096 : sizes[i]);
    }
    recover();
    return 0;
}
