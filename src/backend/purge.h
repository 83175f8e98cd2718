/* Gives free memory back to the system: free slices, OS pages without live blocks inside slabs and
 * packs, and tails of large blocks.
 *
 * Memory to be purged is claimed first, that is, taken out of every thread's reach under the lock
 * that guards it; then the system is called without that lock; then the claim is put back. One
 * superslab is purged at a time, its free slices first, then one slab after the other. */
#pragma once

#include "backend/superslab.h"
#include "base/lock.h"

/* Purges the superslab at the cursor by HK_PURGE or HK_RESET; `aged`: only what was free at the
 * last look too. Sets *seen if more will be old enough at the next look. Returns the bytes given
 * back. Memory that should read as zero and does not is reported as a write after free. The caller
 * holds no lock. */
size_t hk_purge_superslab(const hk_pool_cursor_t *cursor, hk_advice_t how, bool aged, bool *seen);

/* The same for the tails of its large blocks (backend/superslab.h); `aged`: only marked ones. */
size_t hk_purge_tails(const hk_pool_cursor_t *cursor, hk_advice_t how, bool aged);

/* The same for the next pack behind *at (NULL: the first one) that has anything to purge; *bytes:
 * how much went. False: there are no more packs. */
bool hk_purge_pack(void **at, hk_advice_t how, bool aged, bool *seen, size_t *bytes);

/* Called when a large block is about to bring in memory. If the process would have more than ever
 * before, a few superslabs give as much free memory back. So the cost is bounded by what the
 * process has grown. The caller holds no lock. */
void hk_purge_instead(void);

/* hk_purge_found(): a look found that the process has `bytes` of memory; changes are counted from
 * there. hk_purge_memory(): an estimate of what it has now, at most hk_held(). Any thread. */
void hk_purge_found(size_t bytes);
size_t hk_purge_memory(void);

/* Gives back the part of a huge block's last unit that the block does not reach, a mebibyte on
 * average, if the process keeps a large region cache (hk_region_is_mostly_free): it would stay with
 * each such block. The block has n bytes at p, `dirty` bytes from there have memory. Returns how
 * many of these remain. */
size_t hk_purge_tail(char *p, size_t n, size_t dirty);

/* The same for a block that has become shorter, whatever the cache: it may keep its size for
 * long. */
size_t hk_purge_cut(char *p, size_t n, size_t dirty);

/* Zeroes the first n bytes at p, of a large block of the caller's that may hold old data. If hardly
 * any does (tables that are mostly empty), the memory goes back instead: writing zeros would bring
 * all of it in. */
void hk_purge_clear(char *p, size_t n);

/* Unmaps up to `most` bytes of the region cache, rounded up to units; returns how many. */
size_t hk_purge_cached(size_t most);

/* Gives back all free memory outside of magazines, as one run; returns the bytes. Tries advice
 * again if it was given up. Before each superslab and pack it calls `goes_on`, with no lock held,
 * and stops if that returns false. */
size_t hk_purge_all(bool (*goes_on)(void *), void *argument);

/* While this is held nothing is claimed: for statistics, and for the last try of an allocation. */
extern hk_lock_t hk_purge_lock;
