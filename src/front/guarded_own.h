/* What only the guarded front's own files know of. */
#pragma once

#include "front/guarded.h"
#include "front/thread.h"
#include "guard/quarantine.h"

/* NULL: it has none. */
HK_INLINE hk_quarantine_t *hk_quarantine_of(hk_thread_t *thread) {
    return thread != NULL ? hk_load_acquire(&thread->quarantine) : NULL;
}

/* A signal handler has interrupted its thread while that was at a block. */
HK_INLINE bool hk_quarantine_is_busy(const hk_quarantine_t *q) {
    return hk_load_relaxed(&q->dice) == 0;
}
