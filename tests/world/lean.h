// What the lean tests look at: the thread that gives memory back, and the resident set without what
// the system may take at any time. Nothing here allocates.
#ifndef WORLD_LEAN_H
#define WORLD_LEAN_H

#include "company.h"
#include "pattern.h"
#include "process.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

enum { DEADLINE_MS = 200000, POLL_MS = 20 };

static inline void sleep_ms(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

static inline long long now_ms(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0, "clock_gettime");
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Bytes that are resident and not lazily freed.
static inline size_t kept_bytes(void) {
    char text[4096];
    CHECK(read_file("/proc/self/smaps_rollup", text, sizeof text) > 0, "smaps_rollup");
    unsigned long rss = 0, lazy = 0;
    const char *rss_at = strstr(text, "\nRss:"), *lazy_at = strstr(text, "\nLazyFree:");
    CHECK(rss_at != NULL && sscanf(rss_at, " Rss: %lu", &rss) == 1, "no Rss in %s", text);
    CHECK(lazy_at != NULL && sscanf(lazy_at, " LazyFree: %lu", &lazy) == 1, "no LazyFree");
    return (size_t)(rss - lazy) << 10;
}

typedef struct {
    unsigned threads; // of this process
    pid_t purger;     // 0: there is none
} tasks_t;

// The signals that a thread blocks, the first one's bit the lowest.
static inline unsigned long long blocked_signals(const char *status) {
    const char *line = strstr(status, "\nSigBlk:");
    CHECK(line != NULL, "no SigBlk in %s", status);
    return strtoull(line + strlen("\nSigBlk:"), NULL, 16);
}

// What tells the purger from the threads of a test: all signals are theirs but its own faults.
static inline bool blocks_signals(const char *status) {
    const unsigned long long blocked = blocked_signals(status);
    return (blocked >> (SIGTERM - 1) & 1) != 0 && (blocked >> (SIGSEGV - 1) & 1) == 0;
}

static inline tasks_t tasks_now(void) {
    tasks_t tasks = {0, 0};
    char entries[2048], path[64], status[4096];
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0, "/proc/self/task: %s", strerror(errno));
    long got;
    while ((got = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0)
        for (long at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(void *)(entries + at);
            at += entry->d_reclen;
            if (entry->d_name[0] == '.')
                continue;
            tasks.threads++;
            snprintf(path, sizeof path, "/proc/self/task/%.20s/status", entry->d_name);
            if (read_file(path, status, sizeof status) != 0 && blocks_signals(status))
                tasks.purger = atoi(entry->d_name);
        }
    close(fd);
    return tasks;
}

static inline void await_purger(bool exists) {
    for (long ms = 0; (tasks_now().purger != 0) != exists; ms += POLL_MS) {
        CHECK(ms < DEADLINE_MS, "the purger %s after %d ms", exists ? "is not there" : "is there",
              DEADLINE_MS);
        sleep_ms(POLL_MS);
    }
}

// Waits until at most `bytes` are kept.
static inline void await_kept(size_t bytes, const char *what) {
    size_t now = 0;
    for (long ms = 0; (now = kept_bytes()) > bytes; ms += POLL_MS) {
        CHECK(ms < DEADLINE_MS, "%s: %zu MiB are kept after %d ms, %zu allowed", what, now / MIB,
              DEADLINE_MS, bytes / MIB);
        sleep_ms(POLL_MS);
    }
}

// A heap of blocks of 16 to 1024 bytes.
typedef struct {
    block_t **blocks;
    size_t count;
} heap_t;

static inline heap_t heap_grow(size_t bytes, uint64_t seed) {
    heap_t heap = {malloc(bytes / 256 * sizeof(block_t *)), 0};
    CHECK(heap.blocks != NULL, "malloc");
    for (size_t sum = 0; sum < bytes && heap.count < bytes / 256; heap.count++) {
        block_t *block = block_new(16 + rng_below(&seed, 1009), heap.count + seed);
        sum += block->size;
        heap.blocks[heap.count] = block;
    }
    return heap;
}

// Frees all but `percent` of a hundred, at random.
static inline void heap_thin(heap_t *heap, size_t percent, uint64_t seed) {
    for (size_t i = 0; i < heap->count; i++)
        if (rng_below(&seed, 100) >= percent) {
            block_delete(heap->blocks[i]);
            heap->blocks[i] = NULL;
        }
}

static inline void heap_check(const heap_t *heap) {
    for (size_t i = 0; i < heap->count; i++)
        if (heap->blocks[i] != NULL)
            block_check(heap->blocks[i]);
}

static inline void heap_free(heap_t *heap) {
    heap_thin(heap, 0, 1);
    free(heap->blocks);
}

#endif
