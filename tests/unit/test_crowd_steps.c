/* Interrupts a take from a shelf, or a put, at each instruction, and lets other threads' actions, or a
 * signal handler, change the shelf there. Whatever state the shelf is left in, the next visit to the
 * boundary must make it serve again, and a magazine that the handler got must be intact. */
#include <signal.h>
#include <ucontext.h>

#include "check.h"
#include "front/boundary.h"
#include "shelves.h"

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)

enum { TRAP_FLAG = 0x100, SIZE = 64, SLOTS = HK_HOSTILE ? 2 : 31 };
enum { MOST_STEPS = 1000, FIRST_STEPS = 400 };

static hk_thread_t *thread;
static unsigned cls;
static unsigned stop_after; /* in instructions */
static void (*others)(void);
static volatile sig_atomic_t is_over;
static bool is_handled; /* the operation was interrupted */

static void on_step(int number, siginfo_t *info, void *context) {
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    (void)number, (void)info;
    if (!is_over && stop_after-- == 0) {
        others();
        is_over = 1;
    }
    *flags = is_over ? *flags & ~(greg_t)TRAP_FLAG : *flags | TRAP_FLAG;
}

/* ---- the operations, and what happens meanwhile ---- */

static void *block;
static void take_one(void) { block = hk_crowd_pop(SIZE); }
static void put_one(void) {
    if (hk_crowd_push(block))
        block = NULL;
}
static void fetch_one(void) { block = crowd_block(thread, cls); }

static void fill(unsigned n) {
    hk_crowds_clear();
    while (on_shelves(cls) < n) {
        void *p;
        CHECK(hk_heap_take(&hk_crowds[0], cls, &p, 1) == 1);
        CHECK_EQ(hk_crowd_give(thread, cls, p), 0);
    }
}
static void fill_up(void) { fill(SLOTS); }

/* As a signal handler that allocates: the thread leaves the crowd and has a magazine from then on. */
static void leave_crowd(void) {
    hak_free(hak_malloc(SIZE));
    CHECK(thread->magazines[cls].capacity != 0);
}

/* A take from the empty shelf must fetch blocks for half of its places: it returns one, and the others
 * lie there. */
static void check_fetches(void) {
    void *taken[SLOTS + 1];
    unsigned n = 0, moved;
    while (on_shelves(cls) != 0) {
        CHECK((taken[n++] = hk_crowd_take(thread, cls, &moved)) != NULL);
        CHECK_EQ(moved, 0);
    }
    CHECK((taken[n++] = hk_crowd_take(thread, cls, &moved)) != NULL);
    CHECK_EQ(moved, hk_max(SLOTS / 2, 1));
    CHECK_EQ(on_shelves(cls), hk_max(SLOTS / 2, 1) - 1);
    while (n != 0)
        hk_crowd_give(thread, cls, taken[--n]);
}

/* After one more block came through the boundary, a block that is popped must find its place again. */
static void check_has_room(void) {
    void *p;
    CHECK(hk_heap_take(&hk_crowds[0], cls, &p, 1) == 1);
    hk_crowd_give(thread, cls, p);
    const unsigned there = on_shelves(cls);
    CHECK((p = hk_crowd_pop(SIZE)) != NULL);
    CHECK(hk_crowd_push(p));
    CHECK_EQ(on_shelves(cls), there);
}

/* Shelves that are cleared again must be empty, but for a block that was being put there. */
static void check_clears(void) {
    hk_crowds_clear();
    CHECK(on_shelves(cls) <= 1);
}

static void check_magazine(void) {
    CHECK(thread->magazines[cls].capacity != 0 || !is_handled);
    CHECK_EQ(hk_magazine_held(thread, cls), hk_magazine_count(thread, cls));
    drive(cls);
}

/* Interrupts `op` after 0, 1, 2, ... instructions, but fewer than `most`, on a shelf that has `there`
 * blocks, runs `meanwhile` there, then `check`. Returns after how many it has tried. */
static unsigned at_first_steps(unsigned most, unsigned there, void (*op)(void),
                               void (*meanwhile)(void), void (*check)(void)) {
    unsigned after = 0;
    do {
        hk_magazines_flush(thread);
        hk_magazines_reset(thread);
        thread->magazines[cls].crowd = true;
        fill(there);
        if (op == put_one)
            CHECK(hk_heap_take(&hk_crowds[0], cls, &block, 1) == 1);
        others = meanwhile, stop_after = after++, is_over = 0;
        raise(SIGTRAP);
        op();
        is_handled = is_over;
        is_over = 1;
        check();
        if (block != NULL)
            hk_heap_give(&hk_crowds[0], cls, &block, 1);
        block = NULL;
        if (!is_handled)
            break;
    } while (after < most);
    return after;
}

static void at_each_step(unsigned there, void (*op)(void), void (*meanwhile)(void),
                         void (*check)(void)) {
    const unsigned after = at_first_steps(MOST_STEPS, there, op, meanwhile, check);
    CHECK(after > 10 && after < MOST_STEPS);
}

int main(void) {
    CHECK(sigaction(SIGTRAP, &(struct sigaction){.sa_sigaction = on_step, .sa_flags = SA_SIGINFO},
                    NULL) == 0);
    thread = of_one_processor();
    cls = hk_class_of(SIZE);
    at_each_step(SLOTS - 1, put_one, hk_crowds_clear, check_fetches);
    at_each_step(SLOTS - 1, put_one, fill_up, check_has_room);
    at_each_step(1, take_one, fill_up, check_has_room);
    at_each_step(SLOTS, take_one, hk_crowds_clear, check_fetches);
    at_each_step(SLOTS, take_one, leave_crowd, check_magazine);
    at_each_step(0, put_one, leave_crowd, check_magazine);
    at_first_steps(FIRST_STEPS, 0, fetch_one, hk_crowds_clear, check_clears);
}

#else

int main(void) { return unit_skip("needs single steps of x86-64, and no AddressSanitizer"); }

#endif
