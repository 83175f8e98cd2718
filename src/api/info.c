/* mallinfo, malloc_info, malloc_stats, malloc_trim and mallopt, answering for our heap. */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "api/api.h"
#include "backend/meta.h"
#include "backend/region.h"
#include "backend/superslab.h"
#include "base/report.h"
#include "front/boundary.h"

#if !HK_NO_OVERRIDE

/* Bytes. mapped == superslabs + huge; active counts blocks in magazines as in use. */
typedef struct {
    size_t mapped, active, free, huge, cached, metadata;
} totals_t;

static totals_t totals(void) {
    hk_pool_stats_t pool = hk_pool_stats();
    hk_region_stats_t region = hk_region_stats();
    totals_t t = {.mapped = region.live, .cached = region.cached, .metadata = hk_meta_mapped()};
    t.huge = region.live - hk_min(region.live, pool.mapped);
    t.active = pool.active + t.huge;
    t.free = t.mapped - hk_min(t.mapped, t.active);
    return t;
}

/* The fields as the C library documents them: arena what lies in superslabs, hblkhd huge blocks,
 * uordblks in use, fordblks free, keepcost what malloc_trim could give back at once. */
HK_EXPORT struct mallinfo2 mallinfo2(void) {
    totals_t t = totals();
    return (struct mallinfo2){
        .arena = t.mapped - t.huge,
        .hblkhd = t.huge,
        .uordblks = t.active,
        .fordblks = t.free,
        .keepcost = t.cached,
    };
}

static int clamp(size_t n) { return n > INT_MAX ? INT_MAX : (int)n; }

/* The older struct holds ints: figures beyond them are shown as INT_MAX, not wrapped around. */
HK_EXPORT struct mallinfo mallinfo(void) {
    struct mallinfo2 m = mallinfo2();
    return (struct mallinfo){
        .arena = clamp(m.arena),
        .hblkhd = clamp(m.hblkhd),
        .uordblks = clamp(m.uordblks),
        .fordblks = clamp(m.fordblks),
        .keepcost = clamp(m.keepcost),
    };
}

/* Writes to the caller's stream, which may allocate its buffer from us: no lock is held here. */
HK_EXPORT int malloc_info(int options, FILE *stream) {
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    totals_t t = totals();
    fprintf(stream,
            "<malloc version=\"hakmem-%s\">\n"
            "<system type=\"mapped\" size=\"%zu\"/>\n"
            "<system type=\"cached\" size=\"%zu\"/>\n"
            "<system type=\"metadata\" size=\"%zu\"/>\n"
            "<total type=\"active\" size=\"%zu\"/>\n"
            "<total type=\"free\" size=\"%zu\"/>\n"
            "<total type=\"huge\" size=\"%zu\"/>\n"
            "</malloc>\n",
            HK_VERSION, t.mapped, t.cached, t.metadata, t.active, t.free, t.huge);
    return ferror(stream) ? -1 : 0;
}

static void print(const char *name, size_t bytes) {
    hk_line_t line = {0};
    hk_line_str(&line, name);
    hk_line_u64(&line, bytes);
    hk_line_write(&line, STDERR_FILENO);
}

HK_EXPORT void malloc_stats(void) {
    totals_t t = totals();
    print("hakmem: bytes mapped   ", t.mapped);
    print("hakmem: bytes active   ", t.active);
    print("hakmem: bytes free     ", t.free);
    print("hakmem: bytes huge     ", t.huge);
    print("hakmem: bytes cached   ", t.cached);
    print("hakmem: bytes metadata ", t.metadata);
}

/* Everything free goes back; a pad to keep makes no sense where nothing is at the top of a heap. */
HK_EXPORT int malloc_trim(size_t pad) {
    (void)pad;
    return hk_trim();
}

/* The C library's parameters describe its own heap. 1 says "accepted", which callers expect; none
 * has an effect here. */
HK_EXPORT int mallopt(int parameter, int value) {
    (void)parameter, (void)value;
    return 1;
}

#endif
