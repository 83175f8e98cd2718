/* Advice to the system about pages, counted, and given up where the system refuses it again and
 * again (memory that is locked, for instance, cannot be purged). */
#pragma once

#include "os/os.h"

/* As hk_os_advise(). False: the system has refused, or advice has been given up. */
bool hk_advise(void *p, size_t bytes, hk_advice_t advice);

/* Of what is in use: a refusal says nothing of what is free, and is only counted. */
bool hk_advise_in_use(void *p, size_t bytes, hk_advice_t advice);

/* Whether advice has been given up: hk_advise() then does nothing. */
bool hk_advice_is_disabled(void);

/* Where it has been, the next one is tried all the same: what was refused may be locked no more. */
void hk_advice_try_again(void);

/* In a fork's child, which inherits no locks on memory. */
void hk_advice_forked(void);
