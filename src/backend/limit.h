/* How much memory the process holds, and may hold (HAKMEM_LIMIT_MB, HAKMEM_LIMIT_PERCENT).
 *
 * Mapped address space counts: ranges handed out and cached (backend/region.h), fenced blocks in
 * use or kept and, though never refused, metadata and blocks with mappings of their own. Resident
 * memory is at most that; so it exceeds the limit by no more than the latter two. Pages that a
 * range has given back count as long as the range is there. Pages that are about to move count
 * once. */
#pragma once

#include "base/base.h"

/* In bytes; 0: no limit. Any thread. A limit below what is held only refuses more. */
void hk_limit_set(size_t bytes);
size_t hk_limit(void);

/* More than half of the limit is used, or will be by the next superslab: memory is to be saved. */
bool hk_limit_is_near(void);

/* Whether `bytes` more would be refused, by the limit or by the system, even if all else that is
 * held were given back; `counted` of them are in the account already. Then nothing is given back
 * for such a request. Programs make it if they ask for less and less until they are served, or have
 * a wrong length. */
bool hk_limit_excludes(size_t bytes, size_t counted);

/* Called before `bytes` are mapped. `moving` other bytes, at most as many, stop counting, since
 * their pages move there at once; if they stay after all the caller adds them again. False: beyond
 * the limit. This and the two below: any thread, any time, no lock. */
bool hk_held_take(size_t bytes, size_t moving);

/* Bytes that are never refused; and bytes that are no longer mapped. */
void hk_held_add(size_t bytes);
void hk_held_drop(size_t bytes);

size_t hk_held(void);

/* *Singles* are blocks with a mapping, or a page, of their own beside all regions. One more, of
 * `bytes`; one less; memory of a freed one is kept; it is gone, or in use again; and how many there
 * are, with their bytes. Any thread, any time, no lock. */
typedef struct {
    size_t blocks, bytes, kept;
} hk_singles_t;
void hk_single_comes(size_t bytes);
void hk_single_goes(size_t bytes);
void hk_single_is_kept(size_t bytes);
void hk_single_is_gone(size_t bytes);
hk_singles_t hk_singles(void);

/* hk_mapped_peak(): the most bytes mapped at a time, in regions (handed out and cached) and beside
 * them (the allocator's own memory, singles, and memory kept of these). hk_mapped_own() adds bytes
 * beside the regions, hk_mapped_more() notes that regions have grown. Any thread, any time, no
 * lock. */
void hk_mapped_own(size_t bytes);
void hk_mapped_more(void);
size_t hk_mapped_peak(void);

/* Metadata in reservations of its own (guard/header.h) counts as far as it is writable and has been
 * written to, which it stays: `bytes` more, held and mapped; and all of it. Any thread, any time,
 * no lock. */
void hk_own_is_written(size_t bytes);
size_t hk_own_written(void);
