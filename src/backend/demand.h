/* How much free memory a process may keep, and how much of what is old it gives back. Pure: no clock, no system.
 *
 * The target, a share of what is in use, and its *breath*: memory that is given back and taken again,
 * round after round, because the process comes and goes by so much. The second round in a
 * few seconds shows it; it fades while there is none. */
#pragma once

#include "base/base.h"

/* Bytes; all zero at first. */
typedef struct {
    uint64_t touched;  /* what had been brought in, in all, when memory was last given back */
    size_t given;      /* given back lately, and not taken again */
    size_t once;       /* the most that was taken again of it in a round, breath included */
    size_t breath;     /* the most that was so twice: left alone on top of the rest */
    size_t left;       /* what was left alone so when memory was last given back */
    uint64_t faded_at; /* milliseconds; when all this last grew or faded */
} hk_demand_t;

/* So many milliseconds without a new round halve what is known of the old ones. */
enum { HK_DEMAND_MS = 10000 };

/* How much may be free and resident, beside `always`, of a process that has brought in `touched` since
 * its beginning, at `now` milliseconds. */
size_t hk_demand_allows(hk_demand_t *demand, uint64_t touched, size_t always, uint64_t now);

/* So many bytes have been given back. */
void hk_demand_given(hk_demand_t *demand, uint64_t touched, size_t bytes, uint64_t now);

/* So many more, which are of the same round. */
void hk_demand_given_more(hk_demand_t *demand, uint64_t touched, size_t bytes);

/* What is old goes back at once, on credit: 256 KiB of it may be taken again for each millisecond, which costs a
 * twenty-fifth of the time at most, where the system needs 0.6 us for a page. What was not is saved, up to 32 MiB. */
typedef struct {
    size_t bytes;
    uint64_t retaken; /* what had been taken again, in all, when it was last looked at */
    uint64_t at;      /* milliseconds; when that was */
} hk_credit_t;

/* How much may go now. */
size_t hk_credit_allows(hk_credit_t *credit, uint64_t retaken, uint64_t now);

/* So much has gone of which nobody sees whether it is taken again. */
void hk_credit_used(hk_credit_t *credit, size_t bytes);
