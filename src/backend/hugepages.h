/* Whether huge pages pay on this machine, now: a huge page is a bargain where the system has some ready
 * and takes longer than all the small ones where it must make them first. The first touch of each fresh
 * superslab is timed, by a clock that is no system call. Any thread; of two notes at once one may be
 * lost. */
#pragma once

#include "base/base.h"

/* Whether to ask for huge pages this time: yes, until one has been several times as dear as its bytes in
 * small pages; then not for a while, each time longer. */
bool hk_huge_pages_pay(void);

/* The first touch of a fresh superslab took so long. `asked`: huge pages were asked for. */
void hk_huge_pages_note(uint64_t ns, bool asked);
