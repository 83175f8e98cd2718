/* Advice to the system about pages: counted, and given up if the system refuses again and again
 * (locked memory, for instance, cannot be purged). */
#pragma once

#include "os/os.h"

/* As hk_os_advise(). False: the system refused, or keeps what it was told to drop, or advice has been
 * given up. */
bool hk_advise(void *p, size_t bytes, hk_advice_t advice);

/* For memory in use: a refusal is only counted, for it says nothing about free memory. */
bool hk_advise_in_use(void *p, size_t bytes, hk_advice_t advice);

/* Whether advice has been given up: hk_advise() then does nothing. */
bool hk_advice_is_disabled(void);

/* If advice has been given up, lets one more call try: the memory may not be locked any more. */
void hk_advice_try_again(void);

/* In a fork's child, which inherits no locks on memory: forgets all refusals. */
void hk_advice_forked(void);
