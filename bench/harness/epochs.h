/* Runs the mix in one process as a soak: one CSV line per epoch on stdout. */
#ifndef HB_EPOCHS_H
#define HB_EPOCHS_H

#include "measure.h"
#include "mix.h"

/* The columns, for --help. */
#define HB_EPOCH_NOTES                                                                             \
    "Per epoch one CSV line on stdout, after a header line:\n"                                     \
    "  epoch        number, from 0\n"                                                              \
    "  t_s          seconds since the start, at the end of the epoch\n"                            \
    "  ops          operations in this epoch\n"                                                    \
    "  ops_per_s    their rate; reading the columns below is not timed\n"                          \
    "  ns_per_op    its inverse\n"                                                                 \
    "  rss_kb       resident set after the epoch (smaps_rollup: Rss)\n"                            \
    "  anon_kb      of which anonymous\n"                                                          \
    "  lazyfree_kb  of which given back lazily: the kernel may take it at any time\n"              \
    "  anonhuge_kb  of which in huge pages\n"                                                      \
    "  live_kb      in the blocks the program holds, as malloc_usable_size() counts them\n"        \
    "               (from 65536 of the slots where there are more; 0 in modes fast and null)\n"    \
    "  committed_kb private memory mapped writable (VmData), resident or not\n"                    \
    "  minflt       page faults without input or output, in this epoch\n"                          \
    "  user_s       user time, in this epoch\n"                                                    \
    "  sys_s        system time, in this epoch\n"                                                  \
    "After the soak the blocks are freed and the result lines follow."

typedef struct {
    uint64_t epochs;
    uint64_t ops;
    hb_usage_t usage; /* the sum over the epochs, without the time for reading and printing */
} hb_soak_t;

/* Until `ops` operations are done or `seconds` have passed, whichever is first. */
hb_soak_t hb_epochs_run(mix_t *mix, uint64_t ops, double seconds, double epoch_s);

#endif
