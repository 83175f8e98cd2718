/* A signal handler interrupts the boundary at each instruction around a change of a magazine, and frees blocks of the
 * same class: no block gets two owners, no magazine exceeds its capacity, and at most the blocks that the handler
 * freed are lost. */
#include <signal.h>
#include <ucontext.h>

#include "check.h"
#include "config/config.h"
#include "front/boundary.h"
#include "magazines.h"
#include "pool_stats.h"

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)

enum { TRAP_FLAG = 0x100, SIZE = 500, OTHER = 1000, HELD = 1200 };

static struct {
    unsigned after; /* instructions inside the boundary before the handler acts */
    unsigned frees; /* blocks that the handler frees */
} how;
static volatile sig_atomic_t is_over;
static volatile sig_atomic_t acted;       /* how often the handler freed blocks */
static char *held_blocks[2 * HELD], *one; /* the block whose free or malloc is interrupted */
static unsigned count;

/* From the first round, which only looks: after how many instructions the magazine's top or limit changed. */
enum { CHANGES = 32, AROUND = 4 };
static struct {
    unsigned count, steps;
    unsigned at[CHANGES];
    void **top, **limit;
} seen;

static unsigned cls(void) { return hk_class_of(SIZE); }

static void look(unsigned step) {
    void **top = hk_load_relaxed(&own_record()->cache.top[cls()]);
    void **limit = own_record()->cache.limit[cls()];
    if ((top != seen.top || limit != seen.limit) && step != 0 && seen.count < CHANGES)
        seen.at[seen.count++] = step;
    seen.top = top;
    seen.limit = limit;
}

/* Counts only instructions inside the boundary: a signal during a hit may lose the block that the hit moves. */
static void on_step(int number, siginfo_t *info, void *context) {
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    const bool inside = hk_load_relaxed(&own_record()->gate) == HK_INSIDE;
    (void)number, (void)info;
    if (!is_over && inside && how.frees == 0)
        look(seen.steps++);
    else if (!is_over && inside && how.after-- == 0) {
        for (unsigned i = 0; i < how.frees; i++)
            hak_free(held_blocks[--count]);
        is_over = 1;
        acted++;
    }
    *flags = is_over ? *flags & ~(greg_t)TRAP_FLAG : *flags | TRAP_FLAG;
}

static void *hidden(void *p) {
    __asm__ volatile("" : "+r"(p));
    return p;
}

static void hold(unsigned n) {
    while (count > n)
        hak_free(held_blocks[--count]);
    while (count < n)
        held_blocks[count++] = hidden(hak_malloc(SIZE));
}

/* Blocks that are neither in a magazine nor in use, i.e. lost; negative: a block has two owners. */
static long nobodys(void) {
    hk_thread_t *thread = own_record();
    hk_heap_collect(&thread->heap);
    long blocks = 0;
    for (unsigned c = 1; c < HK_CLASS_COUNT; c++) {
        const unsigned n = held(thread, c);
        for (unsigned i = 1; i <= n; i++)
            CHECK_EQ(hk_map_kind(slots_of(thread, c)[i]), c);
        blocks += (long)(n * hk_classes[c].size);
    }
    pinned(thread);
    blocks += (long)((count + (one != NULL)) * hk_classes[cls()].size);
    return ((long)pool_stats().active - blocks) / (long)hk_classes[cls()].size;
}

/* ---- the operations that are interrupted ---- */

static void free_one(void) {
    hak_free(one);
    one = NULL;
}
static void take_one(void) { one = hidden(hak_malloc(SIZE)); }
static void visit_other(void) {
    hk_thread_t *thread = hk_thread_enter();
    const unsigned other = hk_class_of(OTHER);
    hk_magazine_flush_and_give(thread, other, hk_magazine_take_or_refill(thread, other));
    hk_thread_leave(thread);
}
static void flush(void) {
    hk_thread_t *thread = hk_thread_enter();
    hk_magazines_flush(thread);
    hk_thread_leave(thread);
}

/* ---- the state in which each begins ---- */

static void fill_up(void) {
    hold(HELD);
    one = hidden(hak_malloc(SIZE));
    hk_thread_t *t = own_record();
    while (hk_load_relaxed(&t->cache.top[cls()]) != t->cache.limit[cls()])
        hak_free(held_blocks[--count]);
}
static void use_up(void) {
    hold(HELD / 2);
    while (*hk_load_relaxed(&own_record()->cache.top[cls()]) != NULL)
        held_blocks[count++] = hidden(hak_malloc(SIZE));
}
static void fill_few(void) {
    flush();
    hk_magazines_reset(own_record());
    hold(HELD / 2);
    one = hidden(hak_malloc(SIZE));
    hk_thread_t *t = own_record();
    while (hk_load_relaxed(&t->cache.top[cls()]) != t->cache.limit[cls()])
        hak_free(held_blocks[--count]);
}
static unsigned more; /* 0: the magazine is half full; 1: full */
static void make_large(void) {
    hk_store_relaxed(&hk_config.tcache_kb, 2048u);
    drive(cls());
    hold(HELD);
    hk_thread_t *t = own_record();
    while (held(t, cls()) < t->magazines[cls()].capacity * (1 + more) / 2)
        hak_free(held_blocks[--count]);
    hk_store_relaxed(&hk_config.tcache_kb, 64u);
}

static void interrupt(unsigned after, unsigned frees, void (*before)(void), void (*op)(void)) {
    before();
    const long was = nobodys();
    how.after = after, how.frees = frees, is_over = 0;
    raise(SIGTRAP);
    op();
    is_over = 1;
    const long is = nobodys() - was;
    if (is < 0 || is > (long)frees)
        dprintf(STDERR_FILENO, "%u freed after %u instructions: %ld blocks\n", frees, after, is);
    CHECK(is >= 0 && is <= (long)frees);
    if (one != NULL)
        free_one();
}

/* Interrupts at each instruction around each change of the magazine's top or limit. */
static void at_each(unsigned frees, void (*before)(void), void (*op)(void)) {
    interrupt(0, 0, before, op); /* takes longer than later ones: it may need a new slab */
    memset(&seen, 0, sizeof seen);
    interrupt(0, 0, before, op);
    CHECK(seen.count != 0 && seen.count < CHANGES);
    acted = 0;
    for (unsigned i = 0; i < seen.count; i++)
        for (unsigned n = (unsigned)hk_minus(seen.at[i], AROUND); n < seen.at[i] + AROUND; n++)
            interrupt(n, frees, before, op);
    CHECK(acted >= (int)seen.count); /* at the changes themselves, at least */
}

int main(void) {
    CHECK(
        sigaction(SIGTRAP,
                  &(struct sigaction){.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_NODEFER},
                  NULL) == 0);
    if (HK_HOSTILE)
        return unit_skip("magazines of a hostile build have room for one block, and hardly change");
    for (unsigned frees = 1; frees <= 3; frees += 2) {
        at_each(frees, fill_few, free_one);
        drive(cls());
        at_each(frees, fill_up, free_one);
        at_each(frees, use_up, take_one);
        at_each(frees, fill_up, flush);
        drive(hk_class_of(OTHER));
        for (more = 0; more < 2; more++)
            at_each(frees, make_large, visit_other);
        hk_store_relaxed(&hk_config.tcache_kb, 2048u);
    }
}

#else

int main(void) { return unit_skip("needs single steps of x86-64, and no AddressSanitizer"); }

#endif
