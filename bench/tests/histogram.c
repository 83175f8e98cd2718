/* The histogram of latencies against sorted durations: each percentile is off by less than it says. */
#include "latency_histogram.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness/blocks.h"

enum { DURATIONS = 20000 };

static int compare(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static bool is_near(double have, double want) {
    const double off = have > want ? have - want : want - have;
    return off <= want / 128;
}

static unsigned check(hb_histogram_t *histogram, uint64_t *sorted) {
    static const double shares[] = {0.0001, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};
    unsigned wrong = 0;
    qsort(sorted, DURATIONS, sizeof *sorted, compare);
    for (unsigned i = 0; i < sizeof shares / sizeof *shares; i++) {
        const double have = hb_histogram_percentile(histogram, shares[i]);
        const double rank = shares[i] * DURATIONS;
        const unsigned at = (unsigned)rank < rank ? (unsigned)rank : (unsigned)rank - 1;
        if (!is_near(have, (double)sorted[at])) {
            printf("share %g: %g, not %ju\n", shares[i], have, (uintmax_t)sorted[at]);
            wrong++;
        }
    }
    return wrong;
}

int main(void) {
    static hb_histogram_t whole, half;
    static uint64_t ticks[DURATIONS];
    uint32_t x = hb_seed(1, 0);
    unsigned wrong = hb_histogram_percentile(&whole, 0.5) != 0;
    for (unsigned i = 0; i < DURATIONS; i++) {
        ticks[i] = (uint64_t)hb_next(&x) << 31 >> hb_next(&x) % 62;
        hb_histogram_add(i % 2 == 0 ? &whole : &half, ticks[i]);
    }
    hb_histogram_merge(&whole, &half);
    wrong += check(&whole, ticks);
    wrong += whole.max != ticks[DURATIONS - 1] || whole.sum != DURATIONS;
    wrong += hb_histogram_bucket(UINT64_MAX) != HB_HISTOGRAM_BUCKETS - 1;
    printf("%u wrong\n", wrong);
    return wrong != 0;
}
