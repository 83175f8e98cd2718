/* A signal handler interrupts a guarded malloc after each of its instructions, and allocates and frees
 * blocks of the same class. The malloc must see what the handler changed: no block may get two
 * owners. Then it interrupts a realloc after each of its instructions, and does what another
 * thread's free of the block would do. */
#include <ucontext.h>

#include "backend/superslab.h"
#include "base/counters.h"
#include "faults.h"
#include "front/magazine.h"
#include "guard/block.h"
#include "guard/quarantine.h"

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)

enum { TRAP_FLAG = 0x100, SIZE = 700, HELD = 128, MORE = 32, TAKEN = 20, AFTERWARDS = 300 };
enum { INSTRUCTIONS = 400, ONCE_REFILLED = 60 };

typedef struct {
    unsigned after; /* in instructions */
    bool waits;     /* ... which are counted once the magazine has a block */
    void (*does)(void);
} interruption_t;

static interruption_t how;
static volatile sig_atomic_t is_over;
static char *held[HELD + MORE];
static unsigned count; /* of blocks in `held` */

static hk_thread_t *own_thread(void) { return hk_load_relaxed(&hk_tc)->thread; }

/* Once raised, SIGTRAP comes after each instruction until the interruption is over. */
static void on_step(int number, siginfo_t *info, void *context) {
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    (void)number, (void)info;
    how.waits =
        how.waits && *hk_load_relaxed(&own_thread()->cache.top[hk_class_of(SIZE + 1)]) == NULL;
    if (!how.waits && how.after-- == 0 && !is_over) {
        how.does();
        is_over = 1;
    }
    *flags = is_over ? *flags & ~TRAP_FLAG : *flags | TRAP_FLAG;
}

static void take_and_free(void) {
    for (unsigned i = 0; i < TAKEN; i++) {
        char *p = hidden(hak_malloc(SIZE));
        CHECK(p != NULL);
        memset(p, 1, SIZE);
        hak_free(p);
    }
}

/* Frees more blocks than the quarantine has room for; their number, which varies, decides how full it
 * is afterwards. */
static void free_what_is_held(void) {
    for (unsigned i = 0; i < count; i++)
        hak_free(held[i]);
}

/* Fills `held`, and empties the quarantine, so that the next block comes from the magazine, which has
 * enough. */
static void hold(void) {
    count = HELD + how.after % MORE;
    for (unsigned i = 0; i < count; i++)
        held[i] = hak_malloc(SIZE);
    const unsigned cls = hk_class_of(SIZE + 1);
    hk_quarantine_t *q = hk_load_relaxed(&own_thread()->quarantine);
    while (hk_quarantine_count(q, cls) != 0 ||
           hk_magazine_held(own_thread(), cls) < HK_QUARANTINE_MORE_FRESH)
        hidden(hak_malloc(SIZE));
}

static void interrupt(void *argument) {
    static char *blocks[AFTERWARDS];
    how = *(const interruption_t *)argument;
    if (how.does == free_what_is_held)
        hold();
    raise(SIGTRAP);
    blocks[0] = hak_malloc(SIZE);
    is_over = 1;
    for (unsigned i = 1; i < AFTERWARDS; i++)
        blocks[i] = hak_malloc(SIZE);
    for (unsigned i = 0; i < AFTERWARDS; i++) {
        CHECK(blocks[i] != NULL && hk_is_zero(blocks[i], SIZE / 8 * 8)); /* has no other owner */
        memset(blocks[i], 1, SIZE);
    }
    for (unsigned i = 0; i < AFTERWARDS; i++)
        hak_free(blocks[i]);
    hk_guarded_finish();
}

static void interrupt_at_each(void does(void *), unsigned instructions, interruption_t one) {
    static child_t child;
    for (; one.after < instructions; one.after++) {
        child_run(&child, does, &one);
        if (child.status != 0)
            dprintf(STDERR_FILENO, "after %u: %s", one.after, child.text);
        CHECK_EQ(child.status, 0);
    }
}

static char *resized;
static bool is_freed;

static _Atomic uint16_t *its_shadow(void) { return hk_shadow_of(resized, hk_class_of(SIZE + 1)); }

static void mark_as_free(void) {
    const uint16_t was = hk_load_relaxed(its_shadow());
    is_freed = was != HK_BLOCK_FREE && hk_block_set_free(its_shadow(), was);
}

/* A realloc in place that finds the block free must report it, and never marks it as in use. */
static void resize_amid_a_free(void *argument) {
    hk_store_relaxed(&hk_on_fault, (unsigned)HK_ON_FAULT_REPORT);
    how = *(const interruption_t *)argument;
    resized = hak_malloc(SIZE);
    const uint64_t before = hk_counted_ever(faults);
    raise(SIGTRAP);
    hidden(hak_realloc(resized, SIZE - 8));
    is_over = 1;
    CHECK(!is_freed || hk_counted_ever(faults) != before ||
          hk_load_relaxed(its_shadow()) == HK_BLOCK_FREE);
}

int main(void) {
    guard();
    hak_free(hidden(hak_malloc(16)));
    CHECK(
        sigaction(SIGTRAP,
                  &(struct sigaction){.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_NODEFER},
                  NULL) == 0);
    /* Interrupts: while the class gets its places in the quarantine; while the magazine's top block is taken;
     * while there is room for only a few more blocks that have waited. */
    interrupt_at_each(interrupt, INSTRUCTIONS, (interruption_t){.does = take_and_free});
    interrupt_at_each(interrupt, ONCE_REFILLED,
                      (interruption_t){.waits = true, .does = take_and_free});
    if (!HK_HOSTILE) /* there, magazines never hold enough for hold() */
        interrupt_at_each(interrupt, INSTRUCTIONS, (interruption_t){.does = free_what_is_held});
    interrupt_at_each(resize_amid_a_free, INSTRUCTIONS, (interruption_t){.does = mark_as_free});
}

#else

int main(void) { return unit_skip("needs single steps of x86-64, and no AddressSanitizer"); }

#endif
