/* How much the process has of the system, and may have (HAKMEM_LIMIT_MB, HAKMEM_LIMIT_PERCENT).
 *
 * What counts is mapped address space: ranges handed out and cached (backend/region.h), fenced blocks in use or kept, and, never
 * refused, metadata and blocks mapped on their own. It is more than what is resident, so what is resident never
 * exceeds the limit by more than those two; pages that a range of ours has given back count as long as the range
 * is there. Pages that are about to move count once. */
#pragma once

#include "base/base.h"

/* Bytes; 0: none. Any thread; less than what there is already only keeps more from being had. */
void hk_limit_set(size_t bytes);
size_t hk_limit(void);

/* More than half of it is used up, or will be by the next superslab: memory is to be spent with care. */
bool hk_limit_is_near(void);

/* Whether so many bytes more, of which `counted` are in the account already, would be refused, by the limit or by the system,
 * were all else that is held given back: then nothing is, for them. Programs ask for that which ask for less and less until
 * they are served, or have a wrong length. */
bool hk_limit_excludes(size_t bytes, size_t counted);

/* Before so many bytes are mapped; `moving` others, no more than these, count no longer, for their pages move there at once: where they
 * stay after all they are added again. False: that would be beyond the limit. Any thread, any time, no lock; as the two below. */
bool hk_held_take(size_t bytes, size_t moving);

/* The same for what is never refused; and what is there no more. */
void hk_held_add(size_t bytes);
void hk_held_drop(size_t bytes);

size_t hk_held(void);

/* Blocks that have a mapping of their own, or a page, beside all regions: one more, of so many bytes; one less; and how
 * many there are, with their bytes. What is kept of one that went, and when that is gone or in use again. Any thread, any time, no lock. */
typedef struct {
    size_t blocks, bytes, kept;
} hk_singles_t;
void hk_single_comes(size_t bytes);
void hk_single_goes(size_t bytes);
void hk_single_is_kept(size_t bytes);
void hk_single_is_gone(size_t bytes);
hk_singles_t hk_singles(void);

/* The most that regions, handed out and cached, had together with all that is beside them: the allocator's own memory, singles, and
 * what is kept of these. So much more of the allocator's own; more in regions; and the most. Any thread, any time, no lock. */
void hk_mapped_own(size_t bytes);
void hk_mapped_more(void);
size_t hk_mapped_peak(void);

/* Of metadata that lies in reservations of its own (guard/header.h) counts what can be written to, and has been, which it stays: so much more, held
 * and mapped; and all of it. Any thread, any time, no lock. */
void hk_own_is_written(size_t bytes);
size_t hk_own_written(void);
