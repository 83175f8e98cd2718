#include "histogram.h"

#include <math.h>

void hb_histogram_merge(hb_histogram_t *histogram, const hb_histogram_t *part) {
    for (unsigned i = 0; i < HB_HISTOGRAM_BUCKETS; i++) {
        histogram->count[i] += part->count[i];
    }
    histogram->sum += part->sum;
    histogram->max = part->max > histogram->max ? part->max : histogram->max;
}

/* Of the integers in the bucket, the one in the middle. */
static double middle(unsigned bucket) {
    if (bucket < 2 * HB_HISTOGRAM_STEPS) {
        return bucket;
    }
    const unsigned shift = bucket / HB_HISTOGRAM_STEPS - 1;
    const double low = ldexp(bucket - shift * HB_HISTOGRAM_STEPS, (int)shift);
    return low + (ldexp(1, (int)shift) - 1) / 2;
}

double hb_histogram_percentile(const hb_histogram_t *histogram, double share) {
    uint64_t below = 0;
    for (unsigned i = 0; i < HB_HISTOGRAM_BUCKETS; i++) {
        below += histogram->count[i];
        if (histogram->count[i] != 0 && (double)below >= share * (double)histogram->sum) {
            const double ticks = middle(i);
            return ticks < (double)histogram->max ? ticks : (double)histogram->max;
        }
    }
    return 0;
}
