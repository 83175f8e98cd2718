#include "observe/metrics.h"

#include "base/calls.h"
#include "base/report.h"
#include "stats/emit.h"

static const char layer_names[HK_LAYER_COUNT][12] = {
    [HK_LAYER_ULTRAHOT] = "ultrahot", [HK_LAYER_C7_HOT] = "c7_hot",   [HK_LAYER_HEAPV2] = "heapv2",
    [HK_LAYER_SLL] = "sll",           [HK_LAYER_UNIFIED] = "unified", [HK_LAYER_HEAP] = "heap",
};

void hk_metrics_sum(hk_metrics_sum_t *sum, hk_metrics_t *metrics) {
    for (unsigned layer = 0; layer < HK_LAYER_COUNT; layer++)
        for (unsigned cls = 1; cls < hk_class_end(); cls++)
            for (unsigned event = 0; event < HK_EVENT_COUNT; event++)
                sum->n[layer][hk_classes[cls].band][event] +=
                    hk_load_relaxed(&metrics->n[layer][cls][event]);
}

/* Hits, misses, and hits / (hits + misses) with four decimals, rounded down; nothing where there were neither. */
static void put_rate(hk_output_t *out, uint64_t hits, uint64_t misses) {
    enum { ONE = 10000 };
    hk_output_put(out, ",%lu,%lu,", hits, misses);
    if (hits + misses == 0)
        return;
    const uint64_t rate = (uint64_t)((unsigned __int128)hits * ONE / (hits + misses));
    hk_output_put(out, "%lu.%04lu", rate / ONE, rate % ONE);
}

static void write_row(hk_output_t *out, const uint64_t *n, unsigned band, unsigned layer) {
    hk_output_put(out, "%lu,%s,%s", HK_CALL(other, getpid()), hk_band_names[band],
                  layer_names[layer]);
    put_rate(out, n[HK_MALLOC_HIT], n[HK_MALLOC_MISS]);
    put_rate(out, n[HK_FREE_HIT], n[HK_FREE_MISS]);
    hk_output_put(out, ",%lu,%lu,%lu\n", n[HK_REFILL], n[HK_FLUSH], n[HK_MOVED]);
    hk_output_flush(out);
}

int hk_metrics_write(const hk_metrics_sum_t *sum, int fd) {
    hk_output_t out = {.fd = fd};
    hk_output_put(&out, "pid,band,layer,malloc_hits,malloc_misses,malloc_hit_rate,free_hits,"
                        "free_misses,free_hit_rate,refills,flushes,blocks_moved\n");
    hk_output_flush(&out);
    for (unsigned band = 0; band < HK_BAND_COUNT; band++)
        for (unsigned layer = 0; layer < HK_LAYER_COUNT; layer++) {
            const uint64_t *n = sum->n[layer][band];
            if ((n[HK_MALLOC_HIT] | n[HK_MALLOC_MISS] | n[HK_FREE_HIT] | n[HK_FREE_MISS]) != 0)
                write_row(&out, n, band, layer);
        }
    return out.error;
}
