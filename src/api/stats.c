/* hak_stats_*: puts the figures of all boxes together. */
#include "api/stats.h"

#include "api/api.h"
#include "backend/heap.h"
#include "backend/limit.h"
#include "backend/usage.h"
#include "base/calls.h"
#include "base/counters.h"
#include "front/thread.h"
#include "os/os.h"

static void add_bands(hak_stats_t *stats) {
    for (const hak_stats_band_t *band = stats->bands; band < stats->bands + HAK_STATS_BANDS;
         band++) {
#define HK_BAND_BYTES(name, doc) stats->name += band->name;
#include "stats/fields.def"
    }
}

static void add_counters(hak_stats_t *stats) {
#define HK_COUNTER(name, unit, doc) stats->name = hk_counted(name);
#define HK_HEAP_COUNTER(name, unit, doc) stats->name = hk_heap_counted(HK_HEAP_COUNT_##name);
#include "base/counters.def"
#define HK_CALL_KIND(kind, name, doc) stats->calls += stats->name;
#include "base/counters.def"
}

bool hk_stats_collect(hak_stats_t *stats, bool measure) {
    memset(stats, 0, sizeof *stats);
    hk_thread_t *thread = hk_thread_enter_patiently();
    if (thread == NULL)
        return false;
    size_t held[HK_CLASS_COUNT];
    hk_threads_held(held);
    hk_usage_count(stats, held);
    add_bands(stats);
    if (measure && !hk_usage_measure(stats, hk_thread_makes_way, &thread)) {
        if (thread != NULL)
            hk_thread_leave(thread);
        return false;
    }
    if (measure)
        stats->peak_resident = hk_os_status("VmHWM:");
    stats->limit = hk_limit();
    stats->held = hk_held();
    add_counters(stats); /* last: measuring makes system calls, which are counted */
    hk_thread_leave(thread);
    stats->size = sizeof *stats;
    stats->version = 2;
    return true;
}

bool hk_figures_collect(hk_figures_t *figures) {
    const bool counted = hk_stats_collect(&figures->stats, true);
    hk_sections_sum(&figures->sections);
    return counted;
}

static int refused(int error) {
    errno = error;
    return -1;
}

HK_EXPORT int hak_stats_get(hak_stats_t *stats) {
    hak_stats_t all;
    if (stats == NULL || stats->size < offsetof(hak_stats_t, bands))
        return refused(EINVAL);
    if (!hk_stats_collect(&all, true))
        return refused(EBUSY);
    all.size = (uint32_t)hk_min(stats->size, sizeof all);
    memcpy(stats, &all, all.size);
    return 0;
}

int hk_stats_print(int fd, hak_stats_format_t format) {
    hk_figures_t figures;
    if (format != HAK_STATS_TEXT && format != HAK_STATS_JSON && format != HAK_STATS_OPENMETRICS)
        return refused(EINVAL);
    if (!hk_figures_collect(&figures))
        return refused(EBUSY);
    int error = hk_emit_stats(fd, format, &figures);
    return error == 0 ? 0 : refused(error);
}

HK_EXPORT int hak_stats_print(int fd, hak_stats_format_t format) {
    return hk_stats_print(fd, format);
}
