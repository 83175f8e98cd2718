/* What the kernel says about this process's memory, read with open and read: no stdio, no heap. */
#ifndef HB_PROCFS_H
#define HB_PROCFS_H

#include <stdint.h>

/* Members of /proc/self/smaps_rollup, in KiB. */
typedef struct {
    uint64_t rss_kb;
    uint64_t pss_kb;
    uint64_t anon_kb;
    uint64_t lazyfree_kb;
    uint64_t anonhuge_kb;
} hb_rollup_t;

/* Ends the program when the kernel has no smaps_rollup (before Linux 4.14). */
hb_rollup_t hb_rollup_now(void);

/* Private memory the process has mapped writable (VmData), resident or not, in KiB. */
uint64_t hb_committed_kb(void);

/* The process's highest resident set so far (VmHWM), in KiB. */
uint64_t hb_peak_rss_kb(void);

#endif
