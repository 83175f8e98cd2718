/* replay: what a program did with the allocator, done again (docs/replay.md). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness/blocks.h"
#include "harness/measure.h"
#include "harness/procfs.h"

enum { MALLOC, NULL_FLOOR };
enum { TOUCH_FIRST, TOUCH_PAGES };

static const char *path;
static uint64_t repeat;
static unsigned mode, touch;
static bool read_points, pace;

static const hb_option_t options[] = {
    {HB_TEXT, "trace", &path, .positional = true,
     .doc =
         "the trace's streams, as `hakmem replay` unpacks them; under --smoke it can be left out"},
    {HB_UINT, "repeat", &repeat, .start = "1", .min = 1, .max = 1000000,
     .doc = "so often in one process; what is still there at the end is freed between, untimed"},
    {HB_WORD, "mode", &mode, .start = "malloc", .words = "malloc|null",
     .doc = "where the blocks come from"},
    {HB_WORD, "touch", &touch, .start = "pages", .words = "first|pages",
     .doc = "what is written to: each block's first byte, or one in each of its 4 KiB too"},
    {HB_FLAG, "points", &read_points,
     .doc = "first a replay that is not timed, at whose points the memory is read"},
    {HB_FLAG, "pace", &pace, .doc = "the points' replay does nothing before its time"},
};

static const hb_program_t program = {
    .name = "replay",
    .summary = "what a program did with the allocator, done again by as many threads",
    .operation = "one malloc, aligned_alloc, realloc or free",
    .notes =
        "Mode null gives each block a line of a buffer that was there before: the floor under all\n"
        "results. Members of the result besides the usual ones: mallocs, frees, reallocs, of one\n"
        "replay; peak_kb, the highest resident set less what was there before the first block. "
        "With\n"
        "--points, of the one that is not timed: curve, pairs of live and of anonymous resident "
        "KiB\n"
        "more than there were before; held, these per live byte.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

/* ---- the streams: docs/replay.md has their form ---- */

enum { OP_MALLOC, OP_FREE, OP_REALLOC, OP_ALIGNED, OP_START, OP_WAIT, OP_POINT, OP_TIME };
static const unsigned char words_of[] = {2, 1, 2, 3, 1, 2, 2, 1};

enum { VERSION = 2, MOST_POINTS = 64 };

typedef struct {
    char magic[8];
    uint32_t version, threads, slots, points;
} head_t;

/* A recorded thread. done: operations so far, for those that wait for one of them. */
typedef struct {
    _Alignas(64) atomic_uint done; /* atomic: the thread writes, any reads */
    const uint32_t *words;         /* const */
    uint64_t count;                /* const */
    uint64_t at;                   /* of the rehearsal */
    pthread_t thread;
    bool started; /* its starter writes; the main thread reads when all have ended */
} lane_t;

typedef struct {
    unsigned char *bytes;
    size_t size;
} slot_t;

static head_t head;
static lane_t *lanes;
static slot_t
    *slots; /* its user's: whoever comes from another thread has waited for the last one */
static unsigned char *lines;
static struct { uint64_t mallocs, frees, reallocs; } counted;

static struct {
    uint64_t live_kb[MOST_POINTS], held_kb[MOST_POINTS];
    double begin_s;
    uint64_t before_kb;
    bool wanted;
} curve; /* of anonymous memory: how much of a library's file is mapped in is no matter of blocks */

static size_t size_of(uint32_t word) {
    return word >> 31 ? (size_t)(word & 0x7fffffff) << 20 : word;
}

/* ---- an operation ---- */

static inline void touch_from(unsigned char *bytes, size_t from, size_t size, bool null) {
    if (touch == TOUCH_PAGES)
        for (size_t at = (from + 4095) & ~(size_t)4095; at < size; at += 4096)
            *(volatile unsigned char *)(bytes + (null ? 0 : at)) = 1;
}

static inline void open_block(uint32_t slot, unsigned char *bytes, size_t size, bool null) {
    slots[slot] = (slot_t){bytes, size};
    if (__builtin_expect(bytes == NULL, 0))
        hb_out_of_memory(size);
    if (__builtin_expect(hb_smoke, 0))
        hb_fill(bytes, null ? 1 : size, slot);
    else
        *(volatile unsigned char *)bytes = 1;
    if (size > 4096 && !hb_smoke)
        touch_from(bytes, 1, size, null);
}

static inline unsigned char *new_block(uint32_t slot, size_t size, bool null) {
    return null ? lines + (size_t)slot * 64 : malloc(size);
}

static inline void free_block(uint32_t slot, bool null) {
    if (__builtin_expect(hb_smoke, 0))
        hb_verify(slots[slot].bytes, null ? 1 : slots[slot].size, slot);
    if (!null)
        free(slots[slot].bytes);
    slots[slot].bytes = NULL;
}

static inline void resize_block(uint32_t slot, size_t size, bool null) {
    slot_t *old = &slots[slot];
    const size_t kept = old->size < size ? old->size : size;
    if (__builtin_expect(hb_smoke, 0))
        hb_verify(old->bytes, null ? 1 : old->size, slot);
    unsigned char *bytes = null ? old->bytes : realloc(old->bytes, size);
    *old = (slot_t){bytes, size};
    if (__builtin_expect(bytes == NULL, 0))
        hb_out_of_memory(size);
    if (__builtin_expect(hb_smoke, 0)) {
        hb_verify(bytes, null ? 1 : kept, slot);
        hb_fill(bytes, null ? 1 : size, slot);
    } else if (size > 4096) {
        touch_from(bytes, kept, size, null);
    }
}

static unsigned char *aligned_block(uint32_t slot, size_t size, unsigned log2, bool null) {
    void *bytes = lines + (size_t)slot * 64;
    if (!null && posix_memalign(&bytes, (size_t)1 << log2, size) != 0)
        return NULL;
    return bytes;
}

/* ---- what is not the allocator's ---- */

static void wait_for(lane_t *other, uint32_t count) {
    for (unsigned tries = 0; atomic_load_explicit(&other->done, memory_order_acquire) < count;
         tries++)
        if (tries > 100)
            sched_yield();
}

static __attribute__((noinline)) void point(uint32_t number, uint32_t live_kb) {
    if (!curve.wanted)
        return;
    const uint64_t anon = hb_rollup_now().anon_kb, own = curve.before_kb;
    curve.live_kb[number] = live_kb;
    curve.held_kb[number] = anon > own ? anon - own : 0;
}

static __attribute__((noinline)) void wait_until(double ms) {
    const double left = curve.begin_s + ms / 1000 - hb_wall_now();
    if (left > 0)
        nanosleep(&(struct timespec){(time_t)left, (long)((left - (double)(time_t)left) * 1e9)},
                  NULL);
}

static void start(unsigned lane);

/* One loop, compiled with and without threads, and without an allocator. */
static inline __attribute__((always_inline)) void play(lane_t *lane, bool threads, bool null) {
    const uint32_t *at = lane->words, *const end = at + lane->count;
    unsigned done = 0;
    while (at < end) {
        const uint32_t op = *at & 7, value = *at >> 3;
        switch (op) {
        case OP_MALLOC:
            open_block(value, new_block(value, size_of(at[1]), null), size_of(at[1]), null);
            at += 2;
            break;
        case OP_FREE:
            free_block(value, null);
            at += 1;
            break;
        case OP_REALLOC:
            resize_block(value, size_of(at[1]), null);
            at += 2;
            break;
        case OP_ALIGNED:
            open_block(value, aligned_block(value, size_of(at[1]), at[2], null), size_of(at[1]),
                       null);
            at += 3;
            break;
        case OP_START:
            start(value);
            at += 1;
            continue;
        case OP_WAIT:
            wait_for(&lanes[value], at[1]);
            at += 2;
            continue;
        case OP_POINT:
            point(value, at[1]);
            at += 2;
            continue;
        default:
            if (pace && curve.wanted)
                wait_until(value);
            at += 1;
            continue;
        }
        if (threads)
            atomic_store_explicit(&lane->done, ++done, memory_order_release);
    }
}

static void *enter(void *argument) {
    if (mode == NULL_FLOOR)
        play(argument, true, true);
    else
        play(argument, true, false);
    return NULL;
}

static void start(unsigned lane) {
    const int error = pthread_create(&lanes[lane].thread, NULL, enter, &lanes[lane]);
    if (error != 0)
        hb_die("pthread_create: %s", strerror(error));
    lanes[lane].started = true;
}

static hb_usage_t replay(void) {
    for (unsigned i = 0; i < head.threads; i++)
        atomic_store(&lanes[i].done, 0);
    const hb_usage_t begin = hb_usage_now();
    curve.begin_s = begin.wall_s;
    if (head.threads > 1)
        enter(&lanes[0]);
    else if (mode == NULL_FLOOR)
        play(&lanes[0], false, true);
    else
        play(&lanes[0], false, false);
    for (unsigned i = 1; i < head.threads; i++)
        pthread_join(lanes[i].thread, NULL);
    const hb_usage_t end = hb_usage_now();
    for (uint32_t i = 0; i < head.slots; i++)
        if (slots[i].bytes != NULL)
            free_block(i, mode == NULL_FLOOR);
    return hb_usage_between(&begin, &end);
}

/* ---- reading and checking ---- */

static _Noreturn void damaged(const char *how) {
    hb_die("%s is no trace that can be replayed: %s", path != NULL ? path : "this", how);
}

/* One operation on a slot, as it was recorded; the slot's size says whether it is in use. */
static void rehearse_op(uint32_t op, uint32_t slot, const uint32_t *at) {
    if (slot >= head.slots)
        damaged("a block's number is too large");
    if ((slots[slot].size != 0) != (op == OP_FREE || op == OP_REALLOC))
        damaged("a block is used before it is there, or twice");
    if (op != OP_FREE && at[1] == 0)
        damaged("a block has no bytes");
    if (op == OP_ALIGNED && (at[2] < 3 || at[2] > 40))
        damaged("an alignment is none");
    slots[slot].size = op != OP_FREE;
    counted.mallocs += op == OP_MALLOC || op == OP_ALIGNED;
    counted.frees += op == OP_FREE;
    counted.reallocs += op == OP_REALLOC;
}

/* As far as the lane can go; whether it went on at all. */
static bool rehearse_lane(lane_t *lane) {
    const uint64_t before = lane->at;
    while (lane->at < lane->count) {
        const uint32_t *at = lane->words + lane->at, op = *at & 7, value = *at >> 3;
        if (lane->at + words_of[op] > lane->count)
            damaged("an operation is cut off");
        if ((op == OP_START || op == OP_WAIT) && value >= head.threads)
            damaged("a thread's number is too large");
        if (op == OP_WAIT && atomic_load(&lanes[value].done) < at[1])
            break;
        if (op == OP_POINT && value >= head.points)
            damaged("a point's number is too large");
        if (op == OP_START && (value == 0 || lanes[value].started))
            damaged("a thread starts twice");
        if (op == OP_START)
            lanes[value].started = true;
        if (op < OP_START) {
            rehearse_op(op, value, at);
            atomic_fetch_add(&lane->done, 1);
        }
        lane->at += words_of[op];
    }
    return lane->at != before;
}

/* Goes through all of it without an allocator, so that no replay waits for ever or frees what is not
 * there. */
static void rehearse(void) {
    lanes[0].started = true;
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (unsigned i = 0; i < head.threads; i++)
            goes_on |= lanes[i].started && rehearse_lane(&lanes[i]);
    }
    for (unsigned i = 0; i < head.threads; i++)
        if (!lanes[i].started || lanes[i].at != lanes[i].count)
            damaged("its threads wait for each other for ever");
    memset(slots, 0, head.slots * sizeof *slots);
}

static void set_up(const unsigned char *bytes, size_t size) {
    if (size < sizeof head || memcmp(bytes, "hkreplay", 8) != 0)
        damaged("it does not begin as one; `hakmem replay` unpacks them");
    memcpy(&head, bytes, sizeof head);
    if (head.version != VERSION)
        damaged("it is of another version");
    size_t at = sizeof head;
    if (head.threads == 0 || head.points > MOST_POINTS || head.threads > (size - at) / 8 ||
        head.slots > (size - at) / 4)
        damaged("it is cut off");
    lanes = hb_map(head.threads * sizeof *lanes);
    slots = hb_map((head.slots + 1) * sizeof *slots);
    lines = hb_map(((size_t)head.slots + 1) * (mode == NULL_FLOOR ? 64 : 1));
    at += (size_t)head.threads * 8;
    for (unsigned i = 0; i < head.threads; i++) {
        memcpy(&lanes[i].count, bytes + sizeof head + 8 * (size_t)i, 8);
        if (lanes[i].count > (size - at) / 4)
            damaged("it is cut off");
        lanes[i].words = (const uint32_t *)(const void *)(bytes + at);
        at += lanes[i].count * 4;
    }
    rehearse();
}

static void load(void) {
    struct stat there;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &there) != 0)
        hb_die("cannot open %s: %s", path, strerror(errno));
    const size_t size = (size_t)there.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (bytes == MAP_FAILED)
        damaged(size == 0 ? "it is empty" : strerror(errno));
    close(fd);
    set_up(bytes, size);
}

/* For --smoke: a thread that allocates, resizes and frees, and one that frees what the first made. */
static void make_up(void) {
    enum { BLOCKS = 400 };
    static uint32_t words[16 + 9 * BLOCKS];
    uint32_t *first = words + 10, *at = first;
    memcpy(words, &(head_t){"hkreplay", VERSION, 2, BLOCKS, 1}, sizeof(head_t));
    *at++ = 1 << 3 | OP_START;
    *at++ = 5 << 3 | OP_TIME;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        *at++ = i << 3 | (i % 8 == 7 ? OP_ALIGNED : OP_MALLOC);
        *at++ = 1 + i * 7;
        if (i % 8 == 7)
            *at++ = 4 + i % 5;
        if (i % 3 == 0) {
            *at++ = i << 3 | OP_REALLOC;
            *at++ = 1 + i * 40;
        }
        if (i % 4 == 0)
            *at++ = i << 3 | OP_FREE;
    }
    const uint64_t one = (uint64_t)(at - first);
    uint32_t *second = at, done = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        done += 1u + (i % 3 == 0) + (i % 4 == 0);
        if (i % 4 != 1)
            continue;
        *at++ = 0 << 3 | OP_WAIT;
        *at++ = done;
        *at++ = i << 3 | OP_FREE;
    }
    memcpy(words + 6, &(uint64_t[]){one, (uint64_t)(at - second)}, 16);
    set_up((const unsigned char *)words, (size_t)((char *)at - (char *)words));
}

/* ---- the result ---- */

static int add_curve(char *text, size_t room) {
    int length = snprintf(text, room, ",\"curve\":[");
    double held = 0, live = 0;
    for (unsigned i = 0; i < head.points; i++) {
        length += snprintf(text + length, room - (size_t)length, "%s[%" PRIu64 ",%" PRIu64 "]",
                           i == 0 ? "" : ",", curve.live_kb[i], curve.held_kb[i]);
        held += (double)curve.held_kb[i];
        live += (double)curve.live_kb[i];
    }
    return length + snprintf(text + length, room - (size_t)length, "],\"held\":%.4f",
                             live > 0 ? held / live : 0);
}

int main(int argc, char **argv) {
    static char extra[4096];
    hb_options_parse(&program, argc, argv);
    if (path != NULL)
        load();
    else if (hb_smoke)
        make_up();
    else
        hb_die("which trace? `hakmem replay TRACE` unpacks one and runs this program");
    const hb_rollup_t before = hb_rollup_now();
    curve.before_kb = before.anon_kb;
    curve.wanted = read_points;
    if (read_points)
        replay();
    curve.wanted = false;
    hb_usage_t usage = {0};
    for (uint64_t i = 0; i < repeat; i++) {
        const hb_usage_t part = replay();
        hb_usage_add(&usage, &part);
    }
    const uint64_t peak_kb = hb_peak_rss_kb();
    int length = snprintf(extra, sizeof extra,
                          "\"threads\":%u,\"mallocs\":%" PRIu64 ",\"frees\":%" PRIu64
                          ",\"reallocs\":%" PRIu64 ",\"peak_kb\":%" PRIu64,
                          head.threads, counted.mallocs, counted.frees, counted.reallocs,
                          peak_kb > before.rss_kb ? peak_kb - before.rss_kb : 0);
    if (read_points)
        add_curve(extra + length, sizeof extra - (size_t)length);
    hb_report(&program, repeat * (counted.mallocs + counted.frees + counted.reallocs), &usage,
              extra);
    return 0;
}
