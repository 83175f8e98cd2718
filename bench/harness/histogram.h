/* Counts of durations in buckets as wide as a 64th of their lower end: a percentile is the middle of
 * its bucket, and so at most 1/128 off. Below 128 ticks each duration has a bucket of its own. */
#ifndef HB_HISTOGRAM_H
#define HB_HISTOGRAM_H

#include <stdint.h>

enum { HB_HISTOGRAM_STEPS = 64, HB_HISTOGRAM_BUCKETS = (64 - 5) * HB_HISTOGRAM_STEPS };

typedef struct {
    uint64_t count[HB_HISTOGRAM_BUCKETS];
    uint64_t sum; /* of all counts */
    uint64_t max; /* exact */
} hb_histogram_t;

/* The bucket of a duration in ticks. */
static inline unsigned hb_histogram_bucket(uint64_t ticks) {
    if (ticks < 2 * HB_HISTOGRAM_STEPS) {
        return (unsigned)ticks;
    }
    const unsigned shift = 57 - (unsigned)__builtin_clzll(ticks);
    return shift * HB_HISTOGRAM_STEPS + (unsigned)(ticks >> shift);
}

static inline void hb_histogram_add(hb_histogram_t *histogram, uint64_t ticks) {
    histogram->count[hb_histogram_bucket(ticks)]++;
    histogram->sum++;
    if (__builtin_expect(ticks > histogram->max, 0)) {
        histogram->max = ticks;
    }
}

/* Adds the counts of `part`. */
void hb_histogram_merge(hb_histogram_t *histogram, const hb_histogram_t *part);

/* The ticks that a share (0 to 1) of all durations do not exceed; 0 without any duration. */
double hb_histogram_percentile(const hb_histogram_t *histogram, double share);

#endif
