#include "backend/hugepages.h"

#include "backend/advise.h"
#include "backend/region.h"
#include "os/os.h"

/* A first touch that takes FEW times as long as a small page's has brought in more than one. A
 * small page's time is a running mean over about LATE touches, each clamped to BURST times the
 * mean, since an outlier is no price. A huge page saves later what it costs at once: it is
 * expensive only if it takes DEAR times as long as its small pages, which means that the system had
 * to make it first. */
enum { FEW = 8, BURST = 4, LATE = 8, DEAR = 4 };
enum { FIRST_PAUSE = 4, LONGEST_PAUSE = 1024 };

static _Atomic uint64_t small_ns; /* atomic: any thread; time of one OS page; 0: not known yet */
/* atomic: any thread; units that go without huge pages: in all, and still to come */
static atomic_uint pause, left;

bool hk_huge_pages_pay(void) { return hk_load_relaxed(&left) == 0; }

/* ---- how far blocks are filled ---- */

bool hk_huge_pages_is_written(const char *page) {
    /* one place is the upper half of a 64-bit word, the other a lower half: one half of a small
     * number is zero */
    enum { PLACES = 2 };
    const size_t step = hk_os_page_size() / PLACES + sizeof(uint32_t);
    unsigned i = 0;
    while (i < PLACES && !hk_os_holds((const uint32_t *)(const void *)(page + i * step)))
        i++;
    return i < PLACES;
}

/* An odd number of pages between looks: data written in steps of a power of two is not met, or
 * missed, each time. */
static size_t step_for(size_t bytes, unsigned looks) {
    const size_t page = hk_os_page_size(), pages = bytes / looks / page;
    hk_assert(pages != 0);
    return ((pages - 1) | 1) * page;
}

bool hk_huge_pages_is_hollow(const char *start, size_t bytes) {
    enum { PAGES = 8, MAY_HOLD = 1 };
    const size_t page = hk_os_page_size(), step = step_for(bytes, PAGES);
    unsigned held = 0;
    for (unsigned i = 0; i < PAGES && held <= MAY_HOLD; i++)
        held += !hk_is_zero(start + i * step, page);
    return held <= MAY_HOLD;
}

/* atomic: any thread; bytes of the largest block seen filled; 0: none */
static _Atomic size_t trusted;

/* atomic: any thread; bytes of the smallest block that was far from filled when the next one came,
 * while none as large has been filled since; SIZE_MAX: none */
static _Atomic size_t doubted = SIZE_MAX;

bool hk_huge_pages_fill(size_t bytes) {
    return bytes / 4 <= hk_load_relaxed(&trusted) && bytes - HK_UNIT < hk_load_relaxed(&doubted);
}

static void trust(size_t bytes) {
    hk_store_relaxed(&trusted, hk_max(hk_load_relaxed(&trusted), bytes));
    if (bytes >= hk_load_relaxed(&doubted))
        hk_store_relaxed(&doubted, SIZE_MAX);
}

void hk_huge_pages_distrust(void) { hk_store_relaxed(&trusted, (size_t)0); }

/* Looks at pages all over the block, first at a few; one may be zero on purpose. */
bool hk_huge_pages_learn(const char *start, size_t bytes, bool ends) {
    enum { PAGES = 16, FIRST = 4, MAY_BE_ZERO = 1, TOO_MANY = 4 };
    const size_t step = step_for(bytes, PAGES);
    unsigned empty = 0, i = 0;
    bool hollow = false;
    if (!ends && bytes <= hk_load_relaxed(&trusted))
        return false; /* it would teach nothing new */
    for (; i < PAGES && !hollow && (ends || empty <= MAY_BE_ZERO); i++) {
        const size_t place = i % FIRST * (PAGES / FIRST) + i / FIRST;
        empty += !hk_huge_pages_is_written(start + place * step);
        hollow = i + 1 == FIRST && empty >= FIRST - 1;
    }
    if (i == PAGES && empty <= MAY_BE_ZERO)
        trust(bytes);
    else if (!ends && i <= FIRST)
        hk_store_relaxed(&doubted, hk_min(hk_load_relaxed(&doubted), bytes));
    else if (ends && (hollow || empty >= TOO_MANY))
        hk_huge_pages_distrust();
    return hollow;
}

/* ---- what huge pages cost ---- */

void hk_huge_pages_pass(size_t bytes) {
    const unsigned now = hk_load_relaxed(&left);
    if (now != 0)
        hk_store_relaxed(&left, now - (unsigned)hk_min(now, bytes / HK_UNIT));
}

/* After an expensive huge page the pause doubles; after a cheap one it only halves: if the system
 * has some ready and others not, one says little about the next. */
static void note_huge(bool dear) {
    const unsigned before = hk_load_relaxed(&pause);
    const unsigned longer = (unsigned)hk_min(hk_max(2 * before, FIRST_PAUSE), LONGEST_PAUSE);
    const unsigned next = dear ? longer : before / 2;
    hk_store_relaxed(&pause, next);
    hk_store_relaxed(&left, next);
}

void hk_huge_pages_note(uint64_t ns, bool asked) {
    const uint64_t one = hk_load_relaxed(&small_ns);
    if (asked && one != 0 && ns > FEW * one)
        note_huge(ns > DEAR * one * (HK_UNIT / hk_os_page_size()));
    else
        hk_store_relaxed(&small_ns,
                         one == 0 ? ns : ((LATE - 1) * one + hk_min(ns, BURST * one)) / LATE);
}

/* A small process times nothing: it may never need the clock, nor the pages that this takes. */
static bool has_begun(void) { return hk_region_live() >= 4 * HK_UNIT; }

static uint64_t first_touch_ns(char *page) {
    const uint64_t start = hk_os_now_ns();
    *(volatile char *)page = 0;
    return hk_os_now_ns() - start;
}

void hk_huge_pages_touch(char *page, bool asked) {
    if (has_begun())
        hk_huge_pages_note(first_touch_ns(page), asked);
}

/* Times some small pages, if none has been timed yet. */
static void try_small_ones(void) {
    const size_t page = hk_os_page_size();
    char *pages = hk_os_map(HK_SLICE, page);
    for (size_t at = 0; pages != NULL && at < HK_SLICE; at += page)
        hk_huge_pages_note(first_touch_ns(pages + at), false);
    if (pages != NULL)
        hk_os_unmap(pages, HK_SLICE);
}

void hk_huge_pages_try(char *start, size_t bytes) {
    enum { ONE_IN = 32 };
    static _Atomic size_t untried = ONE_IN * HK_UNIT; /* atomic: any thread */
    const size_t so_far = hk_load_relaxed(&untried) + bytes;
    const unsigned before = hk_load_relaxed(&pause);
    const bool tries = has_begun() && (so_far >= ONE_IN * HK_UNIT || before != 0);
    hk_store_relaxed(&untried, tries ? (size_t)0 : so_far);
    if (!tries)
        return;
    if (hk_load_relaxed(&small_ns) == 0)
        try_small_ones();
    hk_huge_pages_note(first_touch_ns((char *)hk_align_up((uintptr_t)start, HK_UNIT)), true);
    if (hk_load_relaxed(&pause) > before)
        hk_advise(start, bytes, HK_NO_HUGE_PAGES);
}
