/* Whether huge pages pay on this machine, now. A huge page is a bargain if the system has one
 * ready; if it must make one first, it takes longer than all the small pages. First touches of
 * fresh memory are timed, by a clock that is no system call. Any thread; of two notes at once one
 * may be lost. */
#pragma once

#include "base/base.h"

/* Whether to ask for huge pages now: yes, until one took several times as long as its bytes in
 * small pages; then not until some fresh memory has passed, each time more. */
bool hk_huge_pages_pay(void);

/* Whether the page holds anything but zeros, at a few places: if not, it may never have been
 * written to. Any page, also another thread's, and whether or not it can be read; brings nothing
 * in. */
bool hk_huge_pages_is_written(const char *page);

/* Whether hardly any of the caller's pages holds anything, by a few of them, each read in full. */
bool hk_huge_pages_is_hollow(const char *start, size_t bytes);

/* Whether a huge block of `bytes` is likely to be written to all over, so that huge pages waste
 * little. Yes if a block of at least a quarter of its size was seen filled, none was seen unfilled
 * since, and no block of its size or less, but larger than the filled ones, was far from filled
 * when the next one came. */
bool hk_huge_pages_fill(size_t bytes);

/* Looks at a huge block of fresh memory, at least `bytes` long, and learns how far such blocks are
 * filled. `ends`: the block is freed or grows, so what is empty now stays empty; else that proves
 * little. True: hardly anything was written to. */
bool hk_huge_pages_learn(const char *start, size_t bytes, bool ends);

/* A huge block was seen that was not filled. */
void hk_huge_pages_distrust(void);

/* `bytes` of fresh memory pass without huge pages. */
void hk_huge_pages_pass(size_t bytes);

/* Touches a fresh page that will be used at once, and times that. `asked`: huge pages were asked
 * for there. */
void hk_huge_pages_touch(char *page, bool asked);

/* Huge pages were asked for in this fresh range, which has room for at least one. Its owner may
 * touch none of it: so while huge pages are cheap, only one range in 64 MiB is touched and timed
 * here. If that was expensive, huge pages are refused for the rest of it. */
void hk_huge_pages_try(char *start, size_t bytes);

/* A first touch took `ns` nanoseconds. */
void hk_huge_pages_note(uint64_t ns, bool asked);
