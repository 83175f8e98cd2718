/* Giving free memory back to the system: free slices, the OS pages inside slabs and packs on which no
 * block lives, and those of large blocks that nobody may use.
 *
 * What is to be purged is claimed first, that is, put out of everybody's reach under the lock that
 * guards it; then the system is called without any such lock; then the claim is put back. One
 * superslab is purged at a time, its free slices first, then one slab after the other. */
#pragma once

#include "backend/superslab.h"
#include "base/lock.h"

/* Purges the superslab at which the cursor stands, by HK_PURGE or HK_RESET; `aged`: only what was free at the last look
 * too. *seen is set where there is more that will be old
 * enough at the next look. Returns the bytes given back. Where what is free should read as zero, and does not, that is a fault. The
 * caller holds no lock. */
size_t hk_purge_superslab(const hk_pool_cursor_t *cursor, hk_advice_t how, bool aged, bool *seen);

/* The same of the tails of its large blocks (backend/superslab.h); `aged`: of those that are marked. */
size_t hk_purge_tails(const hk_pool_cursor_t *cursor, hk_advice_t how, bool aged);

/* The same of the next pack behind *at (NULL: the first one) that has anything to purge; false: there is none. */
bool hk_purge_pack(void **at, hk_advice_t how, bool aged, bool *seen, size_t *bytes);

/* Where memory is about to be brought in for a large block, and the process has never had so much: as much of what is free
 * goes back, as far as a few superslabs have it. So all that this takes is less than the process has
 * grown. The caller holds no lock. */
void hk_purge_instead(void);

/* A look has found that the process has so much of memory: from there on that is counted. What it has, at most. Any thread. */
void hk_purge_found(size_t bytes);
size_t hk_purge_memory(void);

/* A huge block of n bytes at p has been made of `dirty` bytes that have memory. Where the process keeps much of such memory, because
 * it comes and goes by it, what the block does not reach of its last unit would stay with each one, a mebibyte in the mean: it goes
 * back. Returns what is left of `dirty`. */
size_t hk_purge_tail(char *p, size_t n, size_t dirty);

/* The same of a block that has become shorter, whatever the process keeps: it may stay as it is now. */
size_t hk_purge_cut(char *p, size_t n, size_t dirty);

/* Makes the first n bytes at p, of a large block that is the caller's, read as zero. They may hold old data; where that
 * is hardly any, as of tables that are mostly empty, it goes back, for to write all of them would bring all of them in. */
void hk_purge_clear(char *p, size_t n);

/* Gives back so many bytes, or all there are, of the region cache; returns how many. */
size_t hk_purge_cached(size_t most);

/* Gives back everything that is free outside of magazines, as one run; returns the bytes. Where advice has been given up it is tried
 * once more. Between any two superslabs `goes_on` is asked, with no lock held; false: that was all. */
size_t hk_purge_all(bool (*goes_on)(void *), void *argument);

/* Nothing is claimed while the lock is held: for statistics, and the last try of an allocation. */
extern hk_lock_t hk_purge_lock;
