#include "epochs.h"

#include <inttypes.h>
#include <unistd.h>

#include "procfs.h"

/* Operations between two looks at the clock: about a millisecond. */
static const uint64_t chunk = 32768;

/* Reading all this is not timed; the order of the columns is that of HB_EPOCH_NOTES. */
static void print_epoch(const mix_t *mix, uint64_t epoch, double since_start_s, uint64_t ops,
                        const hb_usage_t *usage) {
    const hb_rollup_t memory = hb_rollup_now();
    hb_text_t line = {0};
    hb_text_add(&line, "%" PRIu64 ",%.6f,%" PRIu64 ",%.1f,%.4f,", epoch, since_start_s, ops,
                (double)ops / usage->wall_s, usage->wall_s * 1e9 / (double)ops);
    hb_text_add(&line, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",",
                memory.rss_kb, memory.anon_kb, memory.lazyfree_kb, memory.anonhuge_kb,
                mix_live_bytes(mix) / 1024, hb_committed_kb());
    hb_text_add(&line, "%" PRIu64 ",%.6f,%.6f\n", usage->minflt, usage->user_s, usage->sys_s);
    hb_text_write(&line, STDOUT_FILENO);
}

/* One epoch: at least one chunk, at most `limit` operations. */
static uint64_t run_epoch(mix_t *mix, uint64_t limit, double epoch_s, const hb_usage_t *begin) {
    uint64_t ops = 0;
    while (ops < limit) {
        const uint64_t some = limit - ops < chunk ? limit - ops : chunk;
        mix_run(mix, some);
        ops += some;
        if (hb_wall_now() - begin->wall_s >= epoch_s) {
            break;
        }
    }
    return ops;
}

hb_soak_t hb_epochs_run(mix_t *mix, uint64_t ops, double seconds, double epoch_s) {
    hb_soak_t soak = {0};
    hb_print(STDOUT_FILENO, "epoch,t_s,ops,ops_per_s,ns_per_op,rss_kb,anon_kb,lazyfree_kb,"
                            "anonhuge_kb,live_kb,committed_kb,minflt,user_s,sys_s\n");
    const double start_s = hb_wall_now();
    while (soak.ops < ops && hb_wall_now() - start_s < seconds) {
        const hb_usage_t begin = hb_usage_now();
        const uint64_t done = run_epoch(mix, ops - soak.ops, epoch_s, &begin);
        const hb_usage_t end = hb_usage_now();
        const hb_usage_t usage = hb_usage_between(&begin, &end);
        print_epoch(mix, soak.epochs, end.wall_s - start_s, done, &usage);
        hb_usage_add(&soak.usage, &usage);
        soak.ops += done;
        soak.epochs++;
    }
    return soak;
}
