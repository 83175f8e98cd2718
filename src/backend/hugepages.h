/* Whether huge pages pay on this machine, now: a huge page is a bargain where the system has some ready
 * and takes longer than all the small ones where it must make them first. First touches of fresh memory
 * are timed, by a clock that is no system call. Any thread; of two notes at once one may be lost. */
#pragma once

#include "base/base.h"

/* Whether to ask for huge pages now: yes, until one has been several times as dear as its bytes in small
 * pages; then not until some fresh memory has passed, each time more. */
bool hk_huge_pages_pay(void);

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
