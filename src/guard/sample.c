#include "guard/sample.h"

#include <signal.h>

#include "backend/limit.h"
#include "backend/meta.h"
#include "backend/pagemap.h"
#include "base/calls.h"
#include "base/counters.h"
#include "base/report.h"
#include "guard/block.h"
#include "guard/fence.h"
#include "guard/tail.h"
#include "os/os.h"
#include "os/stack.h"

enum { PLACES = 256, FRAMES = 16 };

/* The thread and the stack of an allocation or a free. */
typedef struct {
    int thread, count;
    void *frames[FRAMES];
} trace_t;

typedef enum { UNUSED, CHANGING, OUT, FREED } state_t;

/* The block on a place, or the last one there. */
typedef struct {
    atomic_uint state; /* atomic: the thread that sets CHANGING owns the rest */
    char *block;
    size_t n;
    hk_by_t by;
    trace_t taken, freed;
} place_t;

static _Atomic(char *) pages;     /* atomic: set once; the fence before the first place */
static _Atomic(place_t *) places; /* atomic: set once, before `pages`, by the same thread */
static atomic_uint next;          /* atomic: the place to try first */

static size_t pages_bytes(void) {
    return hk_align_up((2 * PLACES + 1) * hk_os_page_size(), HK_SLICE);
}

bool hk_sample_has(const void *p) {
    const char *start = hk_load_acquire(&pages);
    return start != NULL && (const char *)p >= start && (const char *)p < start + pages_bytes();
}

unsigned hk_sample_gap(void) {
    const unsigned every = (unsigned)hk_option(guard_sample);
    return every == 0 ? UINT32_MAX : 1 + hk_guard_chance(2 * every - 1);
}

enum { UNIT = 16 };
intptr_t hk_sample_gap_bytes(void) { return (intptr_t)UNIT * hk_sample_gap(); }

bool hk_sample_is_chosen(size_t n) {
    return n <= UNIT || (n <= hk_os_page_size() && hk_guard_chance((uint32_t)n) < UNIT);
}

/* ---- saying what happened ---- */

static void trace(trace_t *t) {
    t->thread = HK_CALL(other, syscall(SYS_gettid));
    t->count = (int)hk_stack_read(t->frames, FRAMES);
}

static void print_trace(const char *what, const trace_t *t) {
    if (t->count == 0)
        return;
    hk_say("hakmem: %s by thread %lu:", what, (uint64_t)t->thread);
    hk_stack_print(t->frames, (unsigned)t->count);
}

static void print_traces(const place_t *place) {
    print_trace("allocated", &place->taken);
    if (hk_load_relaxed(&place->state) != OUT)
        print_trace("freed", &place->freed);
}

/* ---- the handler ---- */

/* The program's handling of the signal before ours: const once our handler is installed. Its
 * functions lie where an attacker cannot write to them. */
static struct sigaction *before(int number) { return &hk_guard_page.before[number == SIGBUS]; }

/* The place whose block an access at p is blamed on: the one that p lies on, or the nearer one
 * beside the fence. */
static place_t *place_near(const char *p) {
    const size_t page = hk_os_page_size();
    const size_t number = (size_t)(p - hk_load_relaxed(&pages)) / page;
    place_t *all = hk_load_relaxed(&places);
    if (number % 2 == 1 || number == 0 || number >= 2 * PLACES)
        return &all[hk_min(number / 2, PLACES - 1)];
    place_t *left = &all[number / 2 - 1], *right = &all[number / 2];
    const size_t into = (uintptr_t)p % page;
    const bool left_is = hk_load_relaxed(&left->state) != UNUSED;
    const bool right_is = hk_load_relaxed(&right->state) != UNUSED;
    return left_is && (into < page / 2 || !right_is) ? left : right;
}

static void report(const char *p) {
    place_t *place = place_near(p);
    if (place->block == NULL) { /* no block has ever been there */
        hk_fault_say(HK_OUT_OF_BOUNDS, p, HK_NO_SIZE, HK_NOWHERE, HK_NO_SIZE, "");
        return;
    }
    const bool out = hk_load_relaxed(&place->state) == OUT;
    hk_fault_say(out ? HK_OUT_OF_BOUNDS : HK_USE_AFTER_FREE, place->block, place->n,
                 p - place->block, HK_NO_SIZE, "");
    print_traces(place);
}

/* Reports the access at p if it concerns the guard. True: the access is let through. */
static bool lets_through(char *p) {
    if (hk_sample_has(p)) {
        report(p);
        char *page = (char *)((uintptr_t)p & ~(hk_os_page_size() - 1));
        if (hk_load_relaxed(&hk_on_fault) == HK_ON_FAULT_REPORT &&
            hk_os_protect(page, hk_os_page_size(), HK_READ_WRITE))
            return true;
    } else if (!hk_fence_report(p) && !hk_block_report(p)) {
        return false;
    }
    if (hk_load_relaxed(&hk_on_fault) == HK_ON_FAULT_TRAP)
        __builtin_trap();
    return false;
}

/* Whether no instruction faulted that would fault again: the signal was sent by a call and has no
 * address, or tells of memory that has gone bad elsewhere. */
static bool is_sent(int number, const siginfo_t *info) {
    return info->si_code <= 0 || (number == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

/* A faulting instruction runs again after the handler; a signal that was sent must be sent
 * again. */
static void end_by(int number, bool sent) {
    HK_COUNTED(other, sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL));
    if (!sent)
        return;
    const uint64_t process = HK_CALL(other, getpid());
    const int thread = HK_CALL(other, syscall(SYS_gettid));
    HK_CALL(other, syscall(SYS_tgkill, process, thread, number));
}

static void call(const struct sigaction *action, int number, siginfo_t *info, void *context) {
    const uint64_t own = (uint64_t)1 << (number - 1);
    uint64_t blocked; /* the first 64 bits of the C library's set are the kernel's */
    memcpy(&blocked, &action->sa_mask, sizeof blocked);
    if ((action->sa_flags & SA_NODEFER) != 0 && (blocked & own) == 0)
        HK_CALL(other, syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &own, NULL, sizeof own));
    if ((action->sa_flags & SA_SIGINFO) != 0)
        action->sa_sigaction(number, info, context);
    else
        action->sa_handler(number);
}

/* Reports a fault of ours; then does what the system would have done without this handler, which
 * also ends a process that ignores a real fault. */
static void on_fault(int number, siginfo_t *info, void *context) {
    static atomic_bool over[2]; /* atomic: the program's one-shot handler has been called */
    const struct sigaction *action = before(number);
    const bool sent = is_sent(number, info), ignored = action->sa_handler == SIG_IGN;
    if ((sent && ignored) || (!sent && lets_through(info->si_addr)))
        return;
    const bool once = ((unsigned)action->sa_flags & SA_RESETHAND) != 0;
    if (action->sa_handler == SIG_DFL || ignored ||
        (once && hk_exchange_acquire(&over[number == SIGBUS], true)))
        end_by(number, sent);
    else
        call(action, number, info, context);
}

/* Keeps the program's SA_RESTART, so interrupted calls behave as before, and its handler's choice
 * of stack. */
static void handle(int number) {
    const struct sigaction *was = before(number);
    HK_COUNTED(other, sigaction(number, NULL, before(number)));
    const bool none = was->sa_handler == SIG_DFL || was->sa_handler == SIG_IGN;
    const int restarts = was->sa_handler == SIG_IGN ? SA_RESTART : was->sa_flags & SA_RESTART;
    const int stack = none ? SA_ONSTACK : was->sa_flags & SA_ONSTACK;
    const struct sigaction ours = {.sa_sigaction = on_fault,
                                   .sa_mask = was->sa_mask,
                                   .sa_flags = SA_SIGINFO | stack | restarts};
    HK_COUNTED(other, sigaction(number, &ours, NULL));
}

void hk_sample_handle(void) {
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&done) || !hk_guard_protect(HK_READ_WRITE))
        return;
    handle(SIGSEGV);
    handle(SIGBUS);
    hk_guard_protect(HK_READ);
}

/* ---- places ---- */

/* Threads may race here. The one whose list wins also publishes its pages, and the others sample
 * once these are there; a loser's list is leaked. A refused attempt leaves nothing behind. */
bool hk_sample_prepare(void) {
    if (hk_load_acquire(&pages) != NULL)
        return true;
    char *start = hk_map_committed(hk_os_fence(pages_bytes(), HK_SLICE), pages_bytes());
    if (start == NULL)
        return false;
    place_t *seen = NULL, *all = hk_meta_alloc(PLACES * sizeof *all);
    if (all == NULL || !hk_cas_seq(&places, &seen, all)) {
        hk_os_unmap(start, pages_bytes());
        return all != NULL;
    }
    hk_guard_prepare(false);
    hk_map_set(start, pages_bytes() / HK_SLICE, HK_KIND_FENCED);
    hk_sample_handle();
    hk_store_release(&pages, start);
    return true;
}

/* A free place among the next few, in turn; the caller may change it. NULL: none of them is
 * free. */
static place_t *take_place(void) {
    enum { TRIES = 8 };
    for (unsigned i = 0; i < TRIES; i++) {
        place_t *place = &hk_load_relaxed(&places)[hk_add_relaxed(&next, 1u) % PLACES];
        unsigned state = hk_load_relaxed(&place->state);
        if ((state == UNUSED || state == FREED) &&
            hk_cas_acquire(&place->state, &state, (unsigned)CHANGING))
            return place;
    }
    return NULL;
}

static char *page_at(const place_t *place) {
    const size_t number = (size_t)(place - hk_load_relaxed(&places));
    return hk_load_relaxed(&pages) + (2 * number + 1) * hk_os_page_size();
}

/* Bytes from the block's start to its page's end: all behind the block is its tail. */
static size_t room_of(const place_t *place) {
    return (size_t)(page_at(place) + hk_os_page_size() - place->block);
}

void *hk_sample_alloc(size_t n, size_t align, hk_by_t by) {
    static atomic_uint turn;
    const size_t page = hk_os_page_size();
    if (n > page || n == 0 || align > page || hk_load_acquire(&pages) == NULL)
        return NULL;
    place_t *place = take_place();
    if (place == NULL)
        return NULL;
    char *start = page_at(place);
    if (!hk_os_protect(start, page, HK_READ_WRITE)) {
        hk_store_release(&place->state, (unsigned)(place->block != NULL ? FREED : UNUSED));
        return NULL;
    }
    if (hk_load_relaxed(&hk_on_fault) == HK_ON_FAULT_REPORT)
        hk_zero(start, page); /* a let-through access may have written there */
    const bool right = hk_add_relaxed(&turn, 1u) % 2 == 0;
    place->block = right ? start + page - hk_align_up(n, hk_max(align, n < 16 ? 8 : 16)) : start;
    place->n = n;
    place->by = by;
    trace(&place->taken);
    hk_tail_write(place->block, n, room_of(place));
    hk_store_release(&place->state, (unsigned)OUT);
    hk_count(guard_samples, 1);
    hk_single_comes(page);
    return place->block;
}

/* The place whose block starts at p; NULL: none. */
static place_t *place_of(const void *p) {
    const size_t number = (size_t)((const char *)p - hk_load_relaxed(&pages)) / hk_os_page_size();
    place_t *place = &hk_load_relaxed(&places)[hk_min(number / 2, PLACES - 1)];
    return number % 2 == 1 && place->block == p ? place : NULL;
}

static void accuse(hk_fatal_t kind, const void *p, const place_t *place, ptrdiff_t at) {
    hk_fault_say(kind, p, place != NULL ? place->n : HK_NO_SIZE, at, HK_NO_SIZE, "");
    if (place != NULL)
        print_traces(place);
    hk_fault_end();
}

/* Checks the edges of a block that only this thread may free, and what the free claims of it. */
static void look_at(const place_t *place, hk_by_t by, size_t n) {
    const char *p = place->block;
    ptrdiff_t at;
    const hk_fatal_t kind =
        hk_edge_broken(p, place->n, room_of(place), (size_t)(p - page_at(place)), SIZE_MAX, &at);
    if (at != HK_NOWHERE)
        accuse(kind, p, place, at);
    if (hk_guard_denies(p, place->n, place->by, by, n)) {
        print_traces(place);
        hk_fault_end();
    }
}

void hk_sample_free(void *p, hk_by_t by, size_t n) {
    place_t *place = place_of(p);
    unsigned out = OUT;
    if (place == NULL) {
        accuse(HK_INVALID_FREE, p, NULL, HK_NOWHERE);
        return;
    }
    if (!hk_cas_acquire(&place->state, &out, (unsigned)CHANGING)) {
        accuse(HK_DOUBLE_FREE, p, place, HK_NOWHERE);
        return;
    }
    hk_single_goes(hk_os_page_size());
    trace(&place->freed);
    look_at(place, by, n);
    if (!hk_os_close(page_at(place), hk_os_page_size()))
        hk_zero(page_at(place), hk_os_page_size()); /* as hk_sample_alloc() expects it */
    hk_store_release(&place->state, (unsigned)FREED);
}

size_t hk_sample_bytes(const void *p) {
    const place_t *place = place_of(p);
    if (place != NULL && hk_load_relaxed(&place->state) == OUT)
        return place->n;
    accuse(HK_INVALID_POINTER, p, place, HK_NOWHERE);
    return 0;
}

bool hk_sample_cut(void *p, size_t n) {
    place_t *place = place_of(p);
    hk_assert(place != NULL && hk_load_relaxed(&place->state) == OUT);
    if (n > place->n)
        return false;
    look_at(place, HK_BY_MALLOC, HK_ANY_SIZE);
    const size_t room = room_of(place), ended = hk_tail_end(place->n, room);
    place->n = n;
    hk_clear_between(p, hk_tail_end(n, room), ended);
    hk_tail_write(p, n, room);
    return true;
}
