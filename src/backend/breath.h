/* The one account (backend/demand.h) of what this process gives back, whoever does, and takes again. Any thread. */
#pragma once

#include "base/base.h"

/* How much may be free and resident, beside `always`. */
size_t hk_breath_allows(size_t always);

/* So many bytes have been given back; `more`: of the same round as those before. */
void hk_breath_given(size_t bytes, bool more);

/* How much is left alone that will not be for ever. */
size_t hk_breath_now(void);

/* Forgets what the process has shown: the options have changed. */
void hk_breath_forget(void);

/* The same in a fork's child, which has shown nothing yet. Takes no lock: a handler that forks may have interrupted who holds it. */
void hk_breath_forked(void);
