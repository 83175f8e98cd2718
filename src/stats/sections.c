#include "stats/sections.h"

#include <string.h>

#include "os/os.h"
#include "os/ticks.h"

#if !HK_FAST

_Atomic uint64_t hk_sections_every;

static _Atomic uint64_t overhead;
static hk_sections_t shared_timings; /* atomic: of all threads that have no place of their own */
static _Thread_local hk_sections_t *own __attribute__((tls_model("initial-exec")));

/* ---- writing ---- */

/* Of a thread's own figures it is the only writer: a load, an addition and a store. (A signal
 * handler between these takes what it adds along: one entry may be lost.) */
static uint64_t add(_Atomic uint64_t *figure, uint64_t n, bool shared) {
    if (shared)
        return hk_add_relaxed(figure, n) + n;
    uint64_t sum = hk_load_relaxed(figure) + n;
    hk_store_relaxed(figure, sum);
    return sum;
}

static void raise_to(_Atomic uint64_t *figure, uint64_t n) {
    uint64_t before = hk_load_relaxed(figure);
    while (before < n && !hk_cas_seq(figure, &before, n))
        continue;
}

static hk_entry_t begin_in(hk_section_timings_t *timings, bool shared, uint64_t every) {
    uint64_t number = add(&timings->count, 1, shared);
    if (every == 0 || number % every != 0)
        return (hk_entry_t){.timings = NULL};
    hk_entry_t entry = {.timings = timings, .shared = shared, .cpu = hk_os_cpu()};
    entry.start = hk_os_ticks();
    return entry;
}

/* Another thread may have switched sampling off since the caller looked. */
HK_COLD hk_entry_t hk_section_begin(hk_section_t section) {
    hk_assert((unsigned)section < HK_SECTION_COUNT);
    hk_sections_t *sections = own != NULL ? own : &shared_timings;
    return begin_in(&sections->of[section], own == NULL, hk_load_relaxed(&hk_sections_every));
}

HK_COLD void hk_section_end(const hk_entry_t *entry) {
    const uint64_t stop = hk_os_ticks();
    hk_section_timings_t *timings = entry->timings;
    hk_assert(timings != NULL); /* else the entry is not timed, and has no end */
    if (hk_os_cpu() != entry->cpu || stop < entry->start) {
        add(&timings->dropped, 1, entry->shared);
        return;
    }
    add(&timings->sampled, 1, entry->shared);
    add(&timings->cycles, stop - entry->start, entry->shared);
    raise_to(&timings->max, stop - entry->start);
}

/* ---- threads and the process ---- */

void hk_sections_keep_in(hk_sections_t *sections) { own = sections; }

/* What an empty section is timed with at the least. */
static uint64_t measure(void) {
    enum { TRIES = 256 };
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < TRIES; i++) {
        hk_section_timings_t timings = {0};
        hk_entry_t entry = begin_in(&timings, false, 1);
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
    hk_assert(every == 0 || hk_load_relaxed(&overhead) != 0); /* 0 says: never switched on */
    hk_store_seq(&hk_sections_every, every);
}

void hk_sections_forget(hk_sections_t *sections) {
    if (hk_load_relaxed(&overhead) != 0)
        memset(sections != NULL ? sections : &shared_timings, 0, sizeof *sections);
}

/* ---- reading ---- */

void hk_sections_sum_begin(hk_sections_sum_t *sum) {
    hk_assert(sum->overhead == 0 && sum->of[0].count == 0); /* zeroed */
    sum->sample = hk_load_relaxed(&hk_sections_every);
    sum->overhead = hk_load_relaxed(&overhead);
    hk_sections_sum_add(sum, &shared_timings);
}

#define HK_SUM(a, b) ((a) + (b))
#define HK_MOST(a, b) hk_max(a, b)

void hk_sections_sum_add(hk_sections_sum_t *sum, const hk_sections_t *sections) {
    for (unsigned i = 0; i < HK_SECTION_COUNT; i++) {
        const hk_section_timings_t *from = &sections->of[i];
        hk_section_sum_t *to = &sum->of[i];
#define HK_TIMING(name, over, unit, doc)                                                           \
    to->name = HK_##over(to->name, hk_load_relaxed(&from->name));
#include "stats/sections.def"
    }
}

#endif
