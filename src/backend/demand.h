/* How much free memory a process may keep, and how much old memory it gives back. Pure: no clock,
 * no system call.
 *
 * A process may keep the target, a share of what is in use, and its *breath*: memory that is given
 * back and taken again, round after round, because the process grows and shrinks by that much. The
 * second round in a few seconds shows it; it fades while there are no more. */
#pragma once

#include "base/base.h"

/* Bytes; all zero at first. */
typedef struct {
    uint64_t touched;  /* all bytes brought in until memory was last given back */
    size_t given;      /* given back lately, and not taken again */
    size_t once;       /* the most that a round took again of what it gave back, breath included */
    size_t breath;     /* the most that two rounds took again: kept on top of the rest */
    size_t left;       /* the breath when memory was last given back */
    uint64_t faded_at; /* milliseconds; when the above last grew or faded */
} hk_demand_t;

/* After this many milliseconds without a new round all that is known halves. */
enum { HK_DEMAND_MS = 10000 };

/* Bytes that may be free and resident, `always` included, at `now` milliseconds. `touched`: all
 * bytes that the process has brought in so far. */
size_t hk_demand_allows(hk_demand_t *demand, uint64_t touched, size_t always, uint64_t now);

/* `bytes` have been given back. */
void hk_demand_given(hk_demand_t *demand, uint64_t touched, size_t bytes, uint64_t now);

/* `bytes` more have been given back in the same round. */
void hk_demand_given_more(hk_demand_t *demand, uint64_t touched, size_t bytes);

/* Old memory goes back at once, on credit: the process may take 256 KiB of it again per
 * millisecond, which costs at most a twenty-fifth of its time where the system needs 0.6 us for a
 * page. Unused credit is saved, up to 32 MiB. */
typedef struct {
    size_t bytes;
    uint64_t retaken; /* all bytes taken again until the last look */
    uint64_t at;      /* milliseconds; when that was */
} hk_credit_t;

/* Bytes that may go back now. */
size_t hk_credit_allows(hk_credit_t *credit, uint64_t retaken, uint64_t now);

/* `bytes` have gone back of which nothing will show whether they are taken again. */
void hk_credit_used(hk_credit_t *credit, size_t bytes);
