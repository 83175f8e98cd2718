/* mallinfo, malloc_info, malloc_stats, malloc_trim and mallopt for hakmem's heap. */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "api/api.h"
#include "api/stats.h"
#include "base/report.h"
#include "front/boundary.h"
#include "stats/emit.h"

HK_EXPORT int hak_trim(void) { return hk_trim(); }

/* musl has none of these functions, so no program there needs them. */
#if !HK_NO_OVERRIDE && defined(__GLIBC__)

/* The fields as the C library documents them: arena: bytes in superslabs; hblkhd: huge blocks;
 * uordblks: in use of the arena; fordblks: the rest of it; keepcost: what malloc_trim could give
 * back at once. All 0 in a signal handler that interrupted the allocator, and while another
 * thread's fork takes seconds. */
static struct mallinfo2 info(void) {
    hak_stats_t s;
    hk_stats_collect(&s, false);
    const hak_stats_band_t *huge = &s.bands[HAK_BAND_HUGE];
    struct mallinfo2 m = {
        .arena = s.mapped - s.cached - s.metadata - huge->carved,
        .hblks = huge->blocks,
        .hblkhd = huge->carved,
        .uordblks = s.allocated - huge->allocated,
        .keepcost = s.cached,
    };
    m.fordblks = hk_minus(m.arena, m.uordblks);
    return m;
}

HK_EXPORT struct mallinfo2 mallinfo2(void) { return info(); }

static int clamp(size_t n) { return n > INT_MAX ? INT_MAX : (int)n; }

/* The older struct holds ints: larger figures are shown as INT_MAX. */
HK_EXPORT struct mallinfo mallinfo(void) {
    struct mallinfo2 m = info();
    return (struct mallinfo){
        .arena = clamp(m.arena),
        .hblks = clamp(m.hblks),
        .hblkhd = clamp(m.hblkhd),
        .uordblks = clamp(m.uordblks),
        .fordblks = clamp(m.fordblks),
        .keepcost = clamp(m.keepcost),
    };
}

/* Holds no lock while it writes: the caller's stream may allocate its buffer from hakmem. */
HK_EXPORT int malloc_info(int options, FILE *stream) {
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    hak_stats_t s;
    hk_line_t line = {0};
    bool failed = false;
    if (!hk_stats_collect(&s, false)) {
        errno = EBUSY;
        return -1;
    }
    hk_line_str(&line, "<malloc version=\"hakmem-" HK_VERSION "\">\n");
    for (unsigned i = 0; i < HAK_STATS_BANDS; i++) {
        const hak_stats_band_t *band = &s.bands[i];
        hk_line_put(&line,
                    "<band name=\"%s\" count=\"%lu\" allocated=\"%lu\" active=\"%lu\" free=\"%lu\" "
                    "carved=\"%lu\"/>\n",
                    hk_band_names[i], band->blocks, band->allocated, band->active, band->free,
                    band->carved);
        failed |= fputs(hk_line_text(&line), stream) == EOF;
        line.len = 0;
    }
#define SIZE(element, type) "<" element " type=\"" type "\" size=\"%lu\"/>\n"
    hk_line_put(&line,
                SIZE("total", "allocated") SIZE("total", "active") SIZE("total", "free")
                    SIZE("system", "current") SIZE("system", "max") SIZE("system", "cached")
                        SIZE("system", "metadata") "</malloc>\n",
                s.allocated, s.active, s.free, s.mapped, s.peak_mapped, s.cached, s.metadata);
    return fputs(hk_line_text(&line), stream) == EOF || failed ? -1 : 0;
}

HK_EXPORT void malloc_stats(void) { hk_stats_print(STDERR_FILENO, HAK_STATS_TEXT); }

/* hak_trim(). `pad` is ignored: hakmem's heap has no top to pad. */
HK_EXPORT int malloc_trim(size_t pad) {
    (void)pad;
    return hk_trim();
}

/* The parameters describe the C library's heap and have no effect here. Callers expect 1,
 * "accepted". */
HK_EXPORT int mallopt(int parameter, int value) {
    (void)parameter, (void)value;
    return 1;
}

#endif
