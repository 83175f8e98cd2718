/* Advice to the system about pages, counted, and given up where the system refuses it again and
 * again (memory that is locked, for instance, cannot be purged). */
#pragma once

#include "os/os.h"

/* Like hk_os_advise(). */
hk_os_advised_t hk_advise(const hk_os_range_t *ranges, size_t n, hk_advice_t advice);

/* Whether advice has been given up: hk_advise() then does nothing. */
bool hk_advice_is_disabled(void);
