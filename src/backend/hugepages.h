/* Whether huge pages pay on this machine, now: a huge page is a bargain where the system has some ready
 * and takes longer than all the small ones where it must make them first. First touches of fresh memory
 * are timed, by a clock that is no system call. Any thread; of two notes at once one may be lost. */
#pragma once

#include "base/base.h"

/* Whether to ask for huge pages now: yes, until one has been several times as dear as its bytes in small
 * pages; then not until some fresh memory has passed, each time more. */
bool hk_huge_pages_pay(void);

/* Whether the page holds something, by a few places of it: one that does not may never have been written to. Any page, whoever's
 * it is and whether or not it can be read; nothing is brought in. */
bool hk_huge_pages_is_written(const char *page);

/* Whether hardly any of these pages, which are the caller's, holds anything, by all of a few of them. */
bool hk_huge_pages_is_hollow(const char *start, size_t bytes);

/* Whether a huge block of so many bytes is likely to be written to all over, so that huge pages waste little: one that was has
 * been seen, of a quarter of its size at least, and none since that was not; nor has one of its size or less, larger than
 * those, been far from filled when the next one came. */
bool hk_huge_pages_fill(size_t bytes);

/* A huge block that has so many bytes at least, and took fresh memory: how much of it holds something? `ends`: that is all, for
 * it is freed or grows; where more may come, what is empty says nothing. True: hardly anything does. */
bool hk_huge_pages_learn(const char *start, size_t bytes, bool ends);

/* One has been seen that was not. */
void hk_huge_pages_distrust(void);

/* So much fresh memory does without. */
void hk_huge_pages_pass(size_t bytes);

/* Touches and times a page that is fresh and will be used at once. `asked`: huge pages were asked for. */
void hk_huge_pages_touch(char *page, bool asked);

/* Huge pages were asked for this fresh range, in which at least one fits: whoever gets it may touch none of it, so
 * while all are cheap the first is touched and timed in one range in 64 MiB. Where that was dear they are refused
 * for the rest. */
void hk_huge_pages_try(char *start, size_t bytes);

/* The first touch took so long. */
void hk_huge_pages_note(uint64_t ns, bool asked);
