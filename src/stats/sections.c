#include "stats/sections.h"

#include "os/os.h"
#include "os/ticks.h"

_Atomic uint64_t hk_sections_every;

static _Atomic uint64_t overhead;
/* atomic: any thread. A thread uses one of several tables, so that few threads share a cache
 * line. */
enum { TABLES_LOG2 = 4, TABLES = 1 << TABLES_LOG2 };
static struct { _Alignas(64) hk_section_timings_t of[HK_SECTION_COUNT]; } tables[TABLES];

/* ---- writing ---- */

static void raise_to(_Atomic uint64_t *figure, uint64_t n) {
    uint64_t before = hk_load_relaxed(figure);
    while (before < n && !hk_cas_seq(figure, &before, n))
        continue;
}

static hk_entry_t begin_in(hk_section_timings_t *timings, uint64_t every) {
    const uint64_t number = hk_add_relaxed(&timings->count, (uint64_t)1) + 1;
    if (every == 0 || number % every != 0)
        return (hk_entry_t){.timings = NULL};
    hk_entry_t entry = {.timings = timings, .cpu = hk_os_cpu()};
    entry.start = hk_os_ticks();
    return entry;
}

/* hk_sections_every may be 0 by now: another thread may have switched sampling off. */
hk_entry_t hk_section_begin(hk_section_t section) {
    hk_assert((unsigned)section < HK_SECTION_COUNT);
    /* stacks lie at regular distances: a product's highest bits depend on all bits of an address */
    const uint64_t thread = (uint64_t)(uintptr_t)__builtin_thread_pointer();
    const size_t own = thread * 0x9E3779B97F4A7C15u >> (64 - TABLES_LOG2);
    return begin_in(&tables[own].of[section], hk_load_relaxed(&hk_sections_every));
}

void hk_section_end(const hk_entry_t *entry) {
    const uint64_t stop = hk_os_ticks();
    hk_section_timings_t *timings = entry->timings;
    hk_assert(timings != NULL); /* an entry that is not timed has no end */
    if (hk_os_cpu() != entry->cpu || stop < entry->start) {
        hk_add_relaxed(&timings->dropped, (uint64_t)1);
        return;
    }
    hk_add_relaxed(&timings->sampled, (uint64_t)1);
    hk_add_relaxed(&timings->cycles, stop - entry->start);
    raise_to(&timings->max, stop - entry->start);
}

/* ---- the process ---- */

/* The shortest time of an empty section. */
static uint64_t measure(void) {
    enum { TRIES = 256 };
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < TRIES; i++) {
        hk_section_timings_t timings = {0};
        hk_entry_t entry = begin_in(&timings, 1);
        hk_section_end(&entry);
        hk_assert(hk_load_relaxed(&timings.sampled) + hk_load_relaxed(&timings.dropped) == 1);
        if (hk_load_relaxed(&timings.sampled) != 0)
            least = hk_min(least, hk_load_relaxed(&timings.cycles));
    }
    return hk_max(least, 1);
}

void hk_sections_sample(uint64_t every) {
    if (every != 0 && hk_load_relaxed(&overhead) == 0)
        hk_store_relaxed(&overhead, measure());
    hk_assert(every == 0 || hk_load_relaxed(&overhead) != 0); /* 0 means: never switched on */
    hk_store_seq(&hk_sections_every, every);
}

void hk_sections_forget(void) {
    if (hk_load_relaxed(&overhead) != 0)
        memset(tables, 0, sizeof tables);
}

/* ---- reading ---- */

#define HK_SUM(a, b) ((a) + (b))
#define HK_MOST(a, b) hk_max(a, b)

void hk_sections_sum(hk_sections_sum_t *sum) {
    *sum = (hk_sections_sum_t){.sample = hk_load_relaxed(&hk_sections_every),
                               .overhead = hk_load_relaxed(&overhead)};
    for (unsigned i = 0; sum->overhead != 0 && i < TABLES * HK_SECTION_COUNT; i++) {
        const hk_section_timings_t *from = &tables[i / HK_SECTION_COUNT].of[i % HK_SECTION_COUNT];
        hk_section_sum_t *to = &sum->of[i % HK_SECTION_COUNT];
#define HK_TIMING(name, over, unit, doc)                                                           \
    to->name = HK_##over(to->name, hk_load_relaxed(&from->name));
#include "stats/sections.def"
    }
}
