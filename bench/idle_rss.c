/* idle_rss: a process that does nothing; what the memory of an idle, preloaded process is. */
#include <inttypes.h>
#include <unistd.h>

#include "harness/options.h"
#include "harness/procfs.h"

static const hb_program_t program = {
    .name = "idle_rss",
    .summary = "the resident memory of a process that does nothing",
    .operation = "nothing: there is no throughput, only one JSON line from smaps_rollup",
};

int main(int argc, char **argv) {
    hb_options_parse(&program, argc, argv);
    const hb_rollup_t memory = hb_rollup_now();
    if (memory.rss_kb == 0 || memory.pss_kb > memory.rss_kb || memory.anon_kb > memory.rss_kb) {
        hb_die("smaps_rollup contradicts itself: Rss %" PRIu64 ", Pss %" PRIu64
               ", Anonymous %" PRIu64,
               memory.rss_kb, memory.pss_kb, memory.anon_kb);
    }
    hb_print(STDOUT_FILENO,
             "{\"bench\":\"idle_rss\",\"params\":{},\"rss_kb\":%" PRIu64 ",\"pss_kb\":%" PRIu64
             ",\"anon_kb\":%" PRIu64 ",\"lazyfree_kb\":%" PRIu64 ",\"anonhuge_kb\":%" PRIu64
             ",\"max_rss_kb\":%" PRIu64 "}\n",
             memory.rss_kb, memory.pss_kb, memory.anon_kb, memory.lazyfree_kb, memory.anonhuge_kb,
             hb_peak_rss_kb());
    return 0;
}
