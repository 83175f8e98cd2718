/* Sections: times every Nth entry of each slow path. The list is sections.def. The hit path has
 * none of it. */
#pragma once

#include "base/base.h"

typedef enum {
#define HK_SECTION(name, doc) HK_SECTION_##name,
#include "stats/sections.def"
    HK_SECTION_COUNT
} hk_section_t;

/* The figures of one section (sections.def). sampled + dropped <= count. */
typedef struct {
#define HK_TIMING(name, over, unit, doc) _Atomic uint64_t name;
#include "stats/sections.def"
} hk_section_timings_t;

/* ---- timing ---- */

/* 0: off; N: every Nth entry of each section is timed, counted per table of threads. atomic: any
 * thread. */
extern _Atomic uint64_t hk_sections_every;

/* False in a FAST build, which has no timing. */
HK_INLINE bool hk_sections_on(void) { return !HK_FAST && hk_load_relaxed(&hk_sections_every) != 0; }

/* An entry. timings: NULL if it is not timed. */
typedef struct {
    hk_section_timings_t *timings;
    uint64_t start;
    int cpu;
} hk_entry_t;
HK_COLD hk_entry_t hk_section_begin(hk_section_t section);
HK_COLD void hk_section_end(const hk_entry_t *entry);

/* Runs a statement as an entry of the section: HK_TIMED(refill, got = take(n)). While off, it costs
 * a load and a branch before the statement and a branch behind it. */
#define HK_TIMED(section, statement)                                                               \
    do {                                                                                           \
        hk_entry_t hk_entry;                                                                       \
        hk_entry.timings = NULL;                                                                   \
        if (HK_UNLIKELY(hk_sections_on()))                                                         \
            hk_entry = hk_section_begin(HK_SECTION_##section);                                     \
        statement;                                                                                 \
        if (!HK_FAST && HK_UNLIKELY(hk_entry.timings != NULL))                                     \
            hk_section_end(&hk_entry);                                                             \
    } while (0)

/* The same for an expression; has its value. */
#define HK_TIMED_VALUE(section, expression)                                                        \
    __extension__({                                                                                \
        __typeof__(expression) hk_value;                                                           \
        HK_TIMED(section, hk_value = (expression));                                                \
        hk_value;                                                                                  \
    })

/* ---- threads and the process ---- */

/* Times every Nth entry from now on; 0: none, and figures stay. Measures the timer's overhead at
 * its first use. Any thread. */
void hk_sections_sample(uint64_t every);

/* Clears all figures, if there are any. In a fork's child, where no other thread writes them. */
void hk_sections_forget(void);

/* ---- reading ---- */

typedef struct {
#define HK_TIMING(name, over, unit, doc) uint64_t name;
#include "stats/sections.def"
} hk_section_sum_t;

typedef struct {
    uint64_t sample;   /* as it is now */
    uint64_t overhead; /* cycles of an empty section; 0: never switched on */
    hk_section_sum_t of[HK_SECTION_COUNT];
} hk_sections_sum_t;

/* Sums up all threads. Any thread; an entry under way may be counted but not timed yet. Touches no
 * table if sampling was never on. */
void hk_sections_sum(hk_sections_sum_t *sum);
