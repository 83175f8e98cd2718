/* Prewarm: room and blocks that a thread's magazines have before its first allocation. */
#pragma once

#include "front/thread.h"

/* Enlarges and fills the magazines as the options say: not at all by default, and lean suppresses
 * the filling. The thread is entered, or its record is being attached. */
void hk_prewarm(hk_thread_t *thread);

/* Whether the options ask for that. */
bool hk_prewarm_is_wanted(void);

/* Prints a line on stderr for each option that asks for more blocks than a thread will get, with
 * how many it gets and why. Once per process. */
void hk_prewarm_check(void);
