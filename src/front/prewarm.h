/* Prewarm: what is in a thread's magazines before its first allocation. */
#pragma once

#include "front/thread.h"

/* Enlarges and fills the magazines as the options say; nothing by default, nor under lean, which
 * suppresses the filling. The thread is entered, or not running yet. */
void hk_prewarm(hk_thread_t *thread);

/* Whether the options ask for that. */
bool hk_prewarm_is_wanted(void);

/* Once per process: a line on stderr for each option that asks for more blocks than a thread will
 * have, which says how many those are and why. */
void hk_prewarm_check(void);
