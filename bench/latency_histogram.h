/* Counts of durations in buckets as wide as a 64th of their lower end: a percentile is the middle of
 * its bucket, and so at most 1/128 off. Below 128 ticks each duration has a bucket of its own. */
#ifndef HB_LATENCY_HISTOGRAM_H
#define HB_LATENCY_HISTOGRAM_H

#include <math.h>
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
static inline void hb_histogram_merge(hb_histogram_t *histogram, const hb_histogram_t *part) {
    for (unsigned i = 0; i < HB_HISTOGRAM_BUCKETS; i++) {
        histogram->count[i] += part->count[i];
    }
    histogram->sum += part->sum;
    histogram->max = part->max > histogram->max ? part->max : histogram->max;
}

/* Of the integers in the bucket, the one in the middle. */
static inline double hb_histogram_middle(unsigned bucket) {
    if (bucket < 2 * HB_HISTOGRAM_STEPS) {
        return bucket;
    }
    const unsigned shift = bucket / HB_HISTOGRAM_STEPS - 1;
    const double low = ldexp(bucket - shift * HB_HISTOGRAM_STEPS, (int)shift);
    return low + (ldexp(1, (int)shift) - 1) / 2;
}

/* The ticks that a share (0 to 1) of all durations do not exceed; 0 without any duration. */
static inline double hb_histogram_percentile(const hb_histogram_t *histogram, double share) {
    uint64_t below = 0;
    for (unsigned i = 0; i < HB_HISTOGRAM_BUCKETS; i++) {
        below += histogram->count[i];
        if (histogram->count[i] != 0 && (double)below >= share * (double)histogram->sum) {
            const double ticks = hb_histogram_middle(i);
            return ticks < (double)histogram->max ? ticks : (double)histogram->max;
        }
    }
    return 0;
}

#endif
