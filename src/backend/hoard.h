/* Memory of freed fenced blocks, apart from their addresses: these wait, inaccessible and without memory (guard/freed.h), while what
 * they had serves the next blocks, whatever the sizes of either. It lies where the system puts it, and cannot be touched. No lock is taken. */
#pragma once

#include "base/base.h"

/* Of blocks of so many bytes. */
#define HK_HOARD_FROM (512 * HK_KIB)

/* Takes the memory of pages that are inaccessible; they stay so, and are zero. False: the system refuses, and nothing has changed. */
bool hk_hoard_take_in(void *body, size_t bytes);

/* Puts memory behind inaccessible pages that have none, as far as there is some: the first *dirty bytes hold what was there before, and
 * the others are zero. False: refused, and the pages may be there no more. */
bool hk_hoard_hand_out(void *body, size_t bytes, size_t *dirty);

/* Of these so many had been written to. Where hardly any are it does not pay: all of them are looked at, and the system would bring in few. */
void hk_hoard_learn(size_t dirty, size_t written);
bool hk_hoard_pays(void);

/* How many bytes there are. They are held, and kept (backend/limit.h). */
size_t hk_hoard_bytes(void);

/* Where it lies; by the time it is visited it may have gone. */
void hk_hoard_visit(void (*visit)(const void *start, size_t bytes, void *argument), void *argument);

/* Lets go of the smallest part; false: there is none. */
bool hk_hoard_let_go(void);

/* Lets go of all. */
void hk_hoard_trim(void);
