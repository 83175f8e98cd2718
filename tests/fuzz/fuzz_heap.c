/* The malloc family against a model of it: blocks have their size, alignment and contents, and do not overlap; a
 * call that fails returns NULL and ENOMEM and changes nothing. Meanwhile options change, the system refuses
 * memory (in debug builds), and threads start, free each other's blocks, and end. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>

#include "config/table.h"
#include "fuzz.h"
#include "hakmem/hakmem.h"
#include "os/os.h"

#ifndef __GLIBC__ /* no other C library has malloc_trim() */
#define malloc_trim(pad) ((void)(pad), hak_trim())
#endif

enum {
    BLOCKS = 64,    /* an actor holds at most */
    MARKED = 48,    /* bytes at either end of a block that are written and compared */
    HELPER_OPS = 64 /* a helper gets fewer bytes of the input */
};
static const size_t MOST_HELD = (size_t)48 << 20; /* bytes, of one actor */

typedef struct {
    unsigned char *p;
    size_t size, align;
    unsigned char mark;
} block_t;

/* A thread's part of the model. Each block belongs to one actor; actors swap blocks while no helper runs. */
typedef struct {
    block_t blocks[BLOCKS];
    size_t held;
    fuzz_input_t in;
    bool fails; /* the system may refuse memory to it */
} actor_t;

static atomic_bool limited; /* a limit of hakmem's own has been set */

static bool may_fail(const actor_t *actor) { return actor->fails || hk_load_seq(&limited); }

/* ---- one block ---- */

static void mark_all(block_t *block, unsigned char mark) {
    const size_t n = block->size < MARKED ? block->size : MARKED;
    block->mark = mark;
    memset(block->p, mark, n);
    memset(block->p + block->size - n, mark, n);
}

static void is_marked(const block_t *block, size_t bytes, unsigned char mark) {
    const size_t n = bytes < MARKED ? bytes : MARKED;
    for (size_t i = 0; i < n; i++)
        FUZZ_CHECK(block->p[i] == mark, "byte %zu of %zu at %p is %#x, not %#x", i, block->size,
                   (void *)block->p, block->p[i], mark);
}

static void is_as_it_was(const block_t *block) {
    const size_t n = block->size < MARKED ? block->size : MARKED;
    is_marked(block, block->size, block->mark);
    for (size_t i = block->size - n; i < block->size; i++)
        FUZZ_CHECK(block->p[i] == block->mark, "byte %zu of %zu at %p is %#x, not %#x", i,
                   block->size, (void *)block->p, block->p[i], block->mark);
}

static void is_zero(const block_t *block) {
    const size_t step = block->size > 4096 ? 509 : 1;
    for (size_t i = 0; i < block->size; i += step)
        FUZZ_CHECK(block->p[i] == 0, "calloc: byte %zu of %zu is %#x", i, block->size, block->p[i]);
}

/* Checks a block just allocated: alignment, usable size, no overlap with the actor's other blocks. */
static void is_sound(const actor_t *actor, const block_t *block) {
    const uintptr_t at = (uintptr_t)block->p;
    const size_t least = block->size <= 8 ? 8 : 16,
                 align = block->align > least ? block->align : least;
    FUZZ_CHECK(at % align == 0, "%p of %zu bytes is not aligned to %zu", (void *)block->p,
               block->size, align);
    const size_t usable = malloc_usable_size(block->p);
    FUZZ_CHECK(usable >= block->size, "%zu bytes, usable %zu", block->size, usable);
    const size_t room = hak_room(block->p);
    FUZZ_CHECK(room >= block->size, "%zu bytes, room for %zu", block->size, room);
    for (size_t i = 0; i < BLOCKS; i++) {
        const block_t *other = &actor->blocks[i];
        FUZZ_CHECK(other == block || other->p == NULL || at + block->size <= (uintptr_t)other->p ||
                       (uintptr_t)other->p + other->size <= at,
                   "%p of %zu bytes and %p of %zu", (void *)block->p, block->size, (void *)other->p,
                   other->size);
    }
}

/* ---- what an actor does ---- */

/* A power of two up to 4 MiB, one off it, or up to nearly twice it. */
static size_t a_size(fuzz_input_t *in) {
    const unsigned kind = fuzz_below(in, 256), by = fuzz_byte(in);
    const size_t power = (size_t)1 << (kind < 160 ? kind % 11 : kind < 248 ? kind % 17 : kind % 23);
    return kind % 3 == 0 ? power + by % 3 - (power > 1) : power + by * power / 256;
}

static size_t an_alignment(fuzz_input_t *in) { return (size_t)1 << (3 + fuzz_below(in, 19)); }

static block_t *a_block(actor_t *actor) { return &actor->blocks[fuzz_below(&actor->in, BLOCKS)]; }

static void let_go(actor_t *actor, block_t *block) {
    if (block->p == NULL)
        return;
    is_as_it_was(block);
    actor->held -= block->size;
    errno = ECHILD;
    free(block->p);
    FUZZ_CHECK(errno == ECHILD, "free changed errno to %d", errno);
    *block = (block_t){0};
}

/* Takes the result of an allocation into the model: checks the block, or that the failure was allowed. */
static void got(actor_t *actor, block_t *block, void *p, size_t size, size_t align, bool zero) {
    if (p == NULL) {
        FUZZ_CHECK(may_fail(actor), "no memory for %zu bytes aligned to %zu: error %d", size, align,
                   errno);
        FUZZ_CHECK(errno == ENOMEM, "error %d", errno);
        return;
    }
    *block = (block_t){.p = p, .size = size, .align = align};
    actor->held += size;
    is_sound(actor, block);
    if (zero)
        is_zero(block);
    mark_all(block, (unsigned char)fuzz_byte(&actor->in));
}

static void allocate(actor_t *actor, unsigned how) {
    fuzz_input_t *in = &actor->in;
    block_t *block = a_block(actor);
    const size_t size = a_size(in), align = how >= 3 ? an_alignment(in) : 1;
    let_go(actor, block);
    if (actor->held + size > MOST_HELD)
        return;
    errno = 0;
    void *p = NULL;
    const size_t of = 1 + how % 2;
    switch (how) {
    case 0:
    case 1:
        p = malloc(size);
        break;
    case 2:
        p = calloc(size / of, of);
        got(actor, block, p, size / of * of, 1, true);
        return;
    case 3:
        p = aligned_alloc(align, size);
        break;
    default: {
        const int error = posix_memalign(&p, align, size);
        FUZZ_CHECK(error == 0 || (error == ENOMEM && p == NULL), "posix_memalign: %d", error);
        errno = error;
    }
    }
    got(actor, block, p, size, align, false);
}

static void resize(actor_t *actor) {
    block_t *block = a_block(actor), before = *block;
    const size_t size = a_size(&actor->in);
    if (block->p != NULL)
        is_as_it_was(block);
    if (actor->held + size > MOST_HELD)
        return;
    errno = 0;
    void *p = realloc(block->p, size);
    if (p == NULL) {
        FUZZ_CHECK(may_fail(actor) && errno == ENOMEM, "realloc from %zu to %zu bytes: error %d",
                   before.size, size, errno);
        if (block->p != NULL)
            is_as_it_was(block);
        return;
    }
    actor->held += size - before.size;
    *block = (block_t){.p = p, .size = size, .align = 1};
    is_sound(actor, block);
    if (before.p != NULL)
        is_marked(block, before.size < size ? before.size : size, before.mark);
    mark_all(block, (unsigned char)fuzz_byte(&actor->in));
}

/* Requests that every allocator must refuse. */
static void ask_for_too_much(fuzz_input_t *in) {
    volatile size_t size =
        SIZE_MAX - fuzz_byte(in) * ((size_t)1 << fuzz_below(in, 55)); /* unknown to the compiler */
    void *p = NULL;
    errno = 0;
    FUZZ_CHECK(malloc(size) == NULL && errno == ENOMEM, "malloc(%zu): error %d", size, errno);
    errno = 0;
    FUZZ_CHECK(calloc(size / 2, 3) == NULL && errno == ENOMEM, "calloc of %zu: error %d", size,
               errno);
    FUZZ_CHECK(posix_memalign(&p, 24, 64) == EINVAL && p == NULL, "posix_memalign to 24");
    FUZZ_CHECK(posix_memalign(&p, 64, size) == ENOMEM && p == NULL, "posix_memalign of %zu", size);
}

/* Sets a run-time option to a value that it may have; out of range is refused by EINVAL. */
static void change_an_option(fuzz_input_t *in) {
    const unsigned option = fuzz_below(in, HK_OPTION_COUNT), by = fuzz_byte(in);
    const hk_option_row_t *row = &hk_options[option];
    char value[24];
    snprintf(value, sizeof value, "%u", by);
    if (row->when != HK_WHEN_RUNTIME || row->type == HK_TYPE_TEXT)
        return;
    if (row->type == HK_TYPE_WORD && strcmp(row->words, "0|1") == 0)
        snprintf(value, sizeof value, "%u", by % 2);
    else if (row->type == HK_TYPE_WORD)
        snprintf(value, sizeof value, "%s", by % 2 ? "DONTNEED" : "OFF");
    if (option == HK_OPTION_limit_mb || option == HK_OPTION_limit_percent)
        hk_store_seq(&limited, true);
    const int is = hak_ctl(row->env, value, NULL, 0);
    const bool refused = is == ENOMEM && option == HK_OPTION_guard_sample;
    FUZZ_CHECK(is == 0 || is == EINVAL || is == EPERM || refused, "%s=%s: %d", row->env, value, is);
}

static void limit_no_more(void) {
    if (!hk_load_seq(&limited))
        return;
    FUZZ_CHECK(hak_ctl("HAKMEM_LIMIT_MB", "0", NULL, 0) == 0, "no limit");
    FUZZ_CHECK(hak_ctl("HAKMEM_LIMIT_PERCENT", "0", NULL, 0) == 0, "no limit");
    hk_store_seq(&limited, false);
}

static void look_at_statistics(const actor_t *actor, bool alone) {
    static hak_stats_t zero;
    hak_stats_t stats = zero;
    stats.size = sizeof stats;
    FUZZ_CHECK(hak_stats_get(&stats) == 0, "error %d", errno);
    FUZZ_CHECK(!alone || stats.allocated >= actor->held, "%zu bytes held, allocated %zu",
               actor->held, (size_t)stats.allocated);
    for (int i = 0; alone && i < HAK_STATS_BANDS; i++) {
        const hak_stats_band_t *band = &stats.bands[i];
        FUZZ_CHECK(band->allocated + band->magazines == band->active,
                   "band %d: %zu + %zu, active %zu", i, (size_t)band->allocated,
                   (size_t)band->magazines, (size_t)band->active);
        FUZZ_CHECK(band->active + band->free <= band->carved, "band %d: %zu + %zu, carved %zu", i,
                   (size_t)band->active, (size_t)band->free, (size_t)band->carved);
    }
}

/* Rarely: statistics take longer than all other steps together. */
static void look_at_statistics_rarely(actor_t *actor, bool alone) {
    if (fuzz_below(&actor->in, 16) == 0)
        look_at_statistics(actor, alone);
}

static void refuse(actor_t *actor, bool from_now_on) {
#if HK_DEBUG
    hk_os_fail_after(from_now_on ? (long)fuzz_byte(&actor->in) % 8 : -1);
    actor->fails = from_now_on;
#else
    (void)actor, (void)from_now_on;
#endif
}

static void let_all_go(actor_t *actor) {
    for (size_t i = 0; i < BLOCKS; i++)
        let_go(actor, &actor->blocks[i]);
}

static void one_step(actor_t *actor) {
    const unsigned what = fuzz_below(&actor->in, 24);
    if (what < 6)
        allocate(actor, what < 5 ? what : 0);
    else if (what < 15)
        let_go(actor, a_block(actor));
    else if (what < 20)
        resize(actor);
    else if (what == 20)
        ask_for_too_much(&actor->in);
    else if (what == 21)
        change_an_option(&actor->in);
    else if (what == 22)
        malloc_trim(fuzz_byte(&actor->in));
    else
        look_at_statistics_rarely(actor, false);
}

static void *be_a_helper(void *argument) {
    actor_t *actor = argument;
    while (!fuzz_is_used_up(&actor->in))
        one_step(actor);
    return NULL;
}

/* Another thread runs a part of the input, while this one goes on with the rest, and ends. Then the two actors swap
 * a third of their blocks, so that this thread, and the next helper, free blocks of another thread. */
static void with_a_helper(actor_t *actor, actor_t *helper) {
    pthread_t thread;
    helper->in = fuzz_part(&actor->in, fuzz_below(&actor->in, HELPER_OPS));
    helper->fails = actor->fails;
    errno = pthread_create(&thread, NULL, be_a_helper, helper);
    if (errno != 0) {
        FUZZ_CHECK(may_fail(actor), "pthread_create: %d", errno);
        return;
    }
    for (unsigned i = fuzz_below(&actor->in, 16); i != 0 && !fuzz_is_used_up(&actor->in); i--)
        one_step(actor);
    FUZZ_CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    for (size_t i = 0; i < BLOCKS; i += 3) {
        const block_t mine = actor->blocks[i], theirs = helper->blocks[i];
        actor->blocks[i] = theirs;
        helper->blocks[i] = mine;
        actor->held += theirs.size - mine.size;
        helper->held += mine.size - theirs.size;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static actor_t actor, helper;
    actor.in = (fuzz_input_t){data, data + size};
    while (!fuzz_is_used_up(&actor.in)) {
        const unsigned what = fuzz_below(&actor.in, 32);
        if (what == 0)
            with_a_helper(&actor, &helper);
        else if (what == 1)
            look_at_statistics_rarely(&actor, true);
        else if (what == 2)
            refuse(&actor, true);
        else if (what < 6)
            refuse(&actor, false);
        else
            one_step(&actor);
    }
    refuse(&actor, false);
    limit_no_more();
    let_all_go(&actor);
    let_all_go(&helper);
    if (size % 16 == 0)
        look_at_statistics(&actor, true);
    return 0;
}
