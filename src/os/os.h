/* The contract with the operating system: address space and pages. No policy, no counters, no
 * locks.
 *
 * Every function may be called by any thread, keeps errno, and never allocates. Sizes are multiples
 * of hk_os_page_size() unless said otherwise. A false or NULL result means the system refused and
 * nothing has changed (except where stated). */
#ifndef HK_OS_OS_H
#define HK_OS_OS_H

#include "base/base.h"

/* Bytes of an OS page, read from the system, never assumed. */
size_t hk_os_page_size(void);

/* Maps `bytes` of zeroed read-write memory aligned to `align` (a power of two >= the OS page). The
 * caller owns the range until hk_os_unmap(). */
void *hk_os_map(size_t bytes, size_t align);

/* Reserves address space that reads as zero and cannot be written; costs no memory and is not
 * counted against RLIMIT_DATA or the overcommit limit. */
void *hk_os_reserve(size_t bytes);

/* Makes part of a reserved range writable. */
bool hk_os_commit(void *p, size_t bytes);

/* Gives the range back, address space included. On refusal the range stays mapped and readable. */
bool hk_os_unmap(void *p, size_t bytes);

/* Gives the pages back and keeps the address space; the range then reads as zero. */
bool hk_os_purge(void *p, size_t bytes);

/* Moves the pages of [from, from+bytes) to [to, to+new_bytes), replacing the mapping there; what is
 * beyond `bytes` reads as zero, and `from` is unmapped. On refusal `from` is untouched but the
 * target may have been unmapped: the caller gives it up. */
bool hk_os_move(void *from, size_t bytes, void *to, size_t new_bytes);

/* Asks for huge pages in the range; a hint. */
void hk_os_want_huge_pages(void *p, size_t bytes);

#if HK_DEBUG
/* The fault-injecting double: the Nth call from now on that asks for memory fails, and all after
 * it, until set to a negative number again. */
void hk_os_fail_after(long calls);
#endif

#endif
