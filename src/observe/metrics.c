#include "observe/metrics.h"

#include <unistd.h>

#include "base/calls.h"
#include "base/report.h"

static const char layer_names[HK_LAYER_COUNT][12] = {
    [HK_LAYER_ULTRAHOT] = "ultrahot", [HK_LAYER_C7_HOT] = "c7_hot",   [HK_LAYER_HEAPV2] = "heapv2",
    [HK_LAYER_SLL] = "sll",           [HK_LAYER_UNIFIED] = "unified", [HK_LAYER_HEAP] = "heap",
};
static const char band_names[HK_BAND_COUNT][4] = {"C0", "C1", "C2", "C3", "C4",
                                                  "C5", "C6", "C7", "mid"};

void hk_metrics_sum(hk_metrics_sum_t *sum, hk_metrics_t *metrics) {
    for (unsigned layer = 0; layer < HK_LAYER_COUNT; layer++)
        for (unsigned cls = 1; cls < hk_class_end(); cls++)
            for (unsigned event = 0; event < HK_EVENT_COUNT; event++)
                sum->n[layer][hk_classes[cls].band][event] +=
                    hk_load_relaxed(&metrics->n[layer][cls][event]);
}

static void put_count(hk_line_t *line, uint64_t n) {
    hk_line_str(line, ",");
    hk_line_u64(line, n);
}

/* hits / (hits + misses) with four decimals, rounded down; nothing where there were neither. */
static void put_rate(hk_line_t *line, uint64_t hits, uint64_t misses) {
    hk_line_str(line, ",");
    if (hits + misses == 0)
        return;
    uint64_t rate = (uint64_t)((unsigned __int128)hits * 10000 / (hits + misses));
    hk_line_u64(line, rate / 10000);
    hk_line_str(line, ".");
    for (uint64_t unit = 1000; unit != 0; unit /= 10)
        hk_line_u64(line, rate / unit % 10);
}

static void write_row(const uint64_t *n, unsigned band, unsigned layer, int fd) {
    hk_line_t line = {0};
    hk_line_u64(&line, (uint64_t)HK_CALL(other, getpid()));
    hk_line_str(&line, ",");
    hk_line_str(&line, band_names[band]);
    hk_line_str(&line, ",");
    hk_line_str(&line, layer_names[layer]);
    put_count(&line, n[HK_MALLOC_HIT]);
    put_count(&line, n[HK_MALLOC_MISS]);
    put_rate(&line, n[HK_MALLOC_HIT], n[HK_MALLOC_MISS]);
    put_count(&line, n[HK_FREE_HIT]);
    put_count(&line, n[HK_FREE_MISS]);
    put_rate(&line, n[HK_FREE_HIT], n[HK_FREE_MISS]);
    put_count(&line, n[HK_REFILL]);
    put_count(&line, n[HK_FLUSH]);
    put_count(&line, n[HK_MOVED]);
    hk_line_write(&line, fd);
}

void hk_metrics_write(const hk_metrics_sum_t *sum, int fd) {
    hk_line_t line = {0};
    hk_line_str(&line, "pid,band,layer,malloc_hits,malloc_misses,malloc_hit_rate,free_hits,"
                       "free_misses,free_hit_rate,refills,flushes,blocks_moved");
    hk_line_write(&line, fd);
    for (unsigned band = 0; band < HK_BAND_COUNT; band++)
        for (unsigned layer = 0; layer < HK_LAYER_COUNT; layer++) {
            const uint64_t *n = sum->n[layer][band];
            if ((n[HK_MALLOC_HIT] | n[HK_MALLOC_MISS] | n[HK_FREE_HIT] | n[HK_FREE_MISS]) != 0)
                write_row(n, band, layer, fd);
        }
}
