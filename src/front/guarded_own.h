/* What the guarded front's own files share. */
#pragma once

#include "front/guarded.h"
#include "front/thread.h"
#include "guard/quarantine.h"

/* The thread's quarantine; NULL: it has none. */
HK_INLINE hk_quarantine_t *hk_quarantine_of(hk_thread_t *thread) {
    return thread != NULL ? hk_load_acquire(&thread->quarantine) : NULL;
}

/* Whether it is closed: the caller is a signal handler that has interrupted its thread at a
 * block. */
HK_INLINE bool hk_quarantine_is_busy(const hk_quarantine_t *q) {
    return hk_load_relaxed(&q->dice) == 0;
}
