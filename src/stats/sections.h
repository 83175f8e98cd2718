/* Sections: how long the slow paths take, by timing every Nth entry of each. The list is
 * sections.def. Nothing of this is on the hit path. */
#pragma once

#include "base/base.h"

typedef enum {
#define HK_SECTION(name, doc) HK_SECTION_##name,
#include "stats/sections.def"
    HK_SECTION_COUNT
} hk_section_t;

/* Of one section, what sections.def says. sampled + dropped <= count. */
typedef struct {
#define HK_TIMING(name, over, unit, doc) _Atomic uint64_t name;
#include "stats/sections.def"
} hk_section_timings_t;

/* ---- timing ---- */

/* 0: off; N: every Nth entry of each section is timed, of the threads that share a table. atomic: any thread. */
extern _Atomic uint64_t hk_sections_every;

/* False in a FAST build, which has no timing. */
HK_INLINE bool hk_sections_on(void) { return !HK_FAST && hk_load_relaxed(&hk_sections_every) != 0; }

/* An entry. timings is NULL where it is not timed. */
typedef struct {
    hk_section_timings_t *timings;
    uint64_t start;
    int cpu;
} hk_entry_t;
HK_COLD hk_entry_t hk_section_begin(hk_section_t section);
HK_COLD void hk_section_end(const hk_entry_t *entry);

/* Runs a statement as an entry of the section: HK_TIMED(refill, got = take(n)). Off, it costs a
 * look and a branch before the statement, and the same behind it. */
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

/* The same of an expression, whose value it has. */
#define HK_TIMED_VALUE(section, expression)                                                        \
    __extension__({                                                                                \
        __typeof__(expression) hk_value;                                                           \
        HK_TIMED(section, hk_value = (expression));                                                \
        hk_value;                                                                                  \
    })

/* ---- threads and the process ---- */

/* Times every Nth entry from now on; 0: none, and figures stay. Measures the timer at its first
 * use. Any thread. */
void hk_sections_sample(uint64_t every);

/* Clears all figures, if there are any. In a fork's child, where nobody else writes them. */
void hk_sections_forget(void);

/* ---- reading ---- */

typedef struct {
#define HK_TIMING(name, over, unit, doc) uint64_t name;
#include "stats/sections.def"
} hk_section_sum_t;

typedef struct {
    uint64_t sample;   /* as it is now */
    uint64_t overhead; /* cycles that an empty section is timed with; 0: never switched on */
    hk_section_sum_t of[HK_SECTION_COUNT];
} hk_sections_sum_t;

/* Of all threads. Any thread; an entry that is under way may be counted and not timed yet. Touches nothing if they were never
 * on. */
void hk_sections_sum(hk_sections_sum_t *sum);
