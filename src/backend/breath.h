/* The process's one account (backend/demand.h) of memory given back and taken again, by whichever
 * thread. Any thread. */
#pragma once

#include "base/base.h"

/* Bytes that may be free and resident: `always`, and the breath. */
size_t hk_breath_allows(size_t always);

/* `bytes` have been given back; `more`: in the same round as those before. */
void hk_breath_given(size_t bytes, bool more);

/* The breath: bytes that are kept for now. */
size_t hk_breath_now(void);

/* Forgets what the process has shown, since the options have changed. */
void hk_breath_forget(void);

/* The same in a fork's child, which has shown nothing yet. Takes no lock: a signal handler that
 * forks may have interrupted the holder. */
void hk_breath_forked(void);
