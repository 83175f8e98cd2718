/* hak_stats_*: the figures of all boxes put together. */
#include "api/stats.h"

#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "backend/heap.h"
#include "backend/limit.h"
#include "backend/usage.h"
#include "base/calls.h"
#include "base/report.h"
#include "front/thread.h"
#include "os/os.h"
#include "stats/counters.h"

/* Blocks that leave a magazine for their slab while we count may be seen in both. */
static void add_class(hak_stats_band_t *band, unsigned cls, const hk_class_usage_t *usage,
                      size_t held) {
    const hk_class_t *c = &hk_classes[cls];
    held = hk_min(held, usage->active);
    band->blocks += usage->active - held;
    band->allocated += (usage->active - held) * c->size;
    band->magazines += held * c->size;
    band->active += usage->active * c->size;
    band->free += usage->free * c->size;
    band->remote += usage->remote * c->size;
    band->carved += usage->slabs * c->slices * HK_SLICE;
}

static void add_whole(hak_stats_band_t *band, size_t blocks, size_t bytes) {
    band->blocks += blocks;
    band->allocated += bytes;
    band->active += bytes;
    band->carved += bytes;
}

static void add_bands(hak_stats_t *stats, const hk_usage_t *usage) {
    size_t held[HK_CLASS_COUNT] = {0};
    hk_threads_held(held);
    for (unsigned cls = 1; cls < hk_class_end(); cls++)
        add_class(&stats->bands[hk_classes[cls].band], cls, &usage->classes[cls], held[cls]);
    hk_singles_t single = hk_singles();
    add_whole(&stats->bands[HAK_BAND_LARGE], usage->large_blocks, usage->large_bytes);
    add_whole(&stats->bands[HAK_BAND_HUGE], usage->huge_blocks, usage->huge_bytes);
    add_whole(&stats->bands[HAK_BAND_HUGE], single.blocks, single.bytes);
    const hak_stats_band_t *band = stats->bands;
    for (; band < stats->bands + HAK_STATS_BANDS; band++) {
#define HK_BAND_BYTES(name, doc) stats->name += band->name;
#include "stats/fields.def"
    }
    size_t others = usage->metadata + single.bytes;
    stats->mapped = usage->superslabs + usage->packs + usage->huge_bytes + usage->cached + others;
    stats->peak_mapped = hk_max(usage->peak + others, stats->mapped);
    stats->metadata = usage->metadata;
    stats->cached = usage->cached;
    stats->limit = hk_limit();
    stats->held = hk_held();
}

static void add_counters(hak_stats_t *stats) {
#define HK_COUNTER(name, unit, doc) stats->name = hk_counted(name);
#define HK_HEAP_COUNTER(name, unit, doc) stats->name = hk_heap_counted(HK_HEAP_COUNT_##name);
#include "stats/counters.def"
    stats->faults = hk_load_relaxed(&hk_faults);
    uint64_t counts[HK_CALL_KINDS];
    stats->calls = hk_calls_read(counts);
#define HK_CALL_KIND(kind, field, doc) stats->field = counts[HK_CALL_##kind];
#include "base/calls.def"
}

static void add_residency(hak_stats_t *stats) {
    hk_residency_t residency;
    hk_usage_residency(&residency);
    stats->resident = residency.resident;
    stats->lazy = residency.lazy;
    stats->dirty = residency.free - stats->lazy;
    stats->retained = hk_minus(stats->mapped, residency.resident);
    stats->peak_resident = hk_os_status("\nVmHWM:");
}

bool hk_stats_collect(hak_stats_t *stats, bool measure) {
    memset(stats, 0, sizeof *stats);
    hk_thread_t *thread = hk_thread_enter_patiently();
    if (thread == NULL)
        return false;
    hk_usage_t usage;
    hk_usage_count(&usage);
    add_bands(stats, &usage);
    if (measure)
        add_residency(stats);
    add_counters(stats); /* last: to ask for residency is to call the system */
    hk_thread_leave(thread);
    stats->size = sizeof *stats;
    stats->version = 2;
    return true;
}

bool hk_figures_collect(hk_figures_t *figures) {
    return hk_stats_collect(&figures->stats, true) && hk_threads_sections(&figures->sections);
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

HK_EXPORT int hak_stats_print(int fd, hak_stats_format_t format) {
    hk_figures_t figures;
    if (format != HAK_STATS_TEXT && format != HAK_STATS_JSON && format != HAK_STATS_OPENMETRICS)
        return refused(EINVAL);
    if (!hk_figures_collect(&figures))
        return refused(EBUSY);
    int error = hk_emit_stats(fd, format, &figures);
    return error == 0 ? 0 : refused(error);
}
