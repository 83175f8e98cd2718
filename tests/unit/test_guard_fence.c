/* Fenced blocks, the large blocks of a guarded process: they lie between inaccessible pages, have
 * sealed headers elsewhere, and are reused within bounds. Also blocks of no bytes. */
#include "backend/limit.h"
#include "backend/meta.h"
#include "backend/region.h"
#include "base/calls.h"
#include "faults.h"
#include "guard/fence.h"
#include "guard/header.h"
#include "guard/nothing.h"
#include "os/os.h"
#include "stats_now.h"

#include <unistd.h>

static child_t child;

static void write_there(void *p) { *(volatile char *)p = 1; }

/* ---- fences ---- */

static void add_bytes(const void *start, size_t bytes, void *sum) {
    (void)start;
    *(size_t *)sum += bytes;
}

/* Headers must count as metadata and as held, by the OS pages that they lie on, and stay when their
 * blocks are gone. */
static void headers_count(void) {
    enum { BLOCKS = 300, MOST = 2 * BLOCKS };
    static char *blocks[BLOCKS];
    static uintptr_t pages[MOST];
    const uintptr_t page = hk_os_page_size();
    const size_t held = hk_held();
    size_t others = 0;
    unsigned n = 0;
    CHECK_EQ(hk_own_written(), 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_malloc(40000 + i * 1000);
        const uintptr_t header = (uintptr_t)hk_header_of(blocks[i]);
        const uintptr_t in[] = {header / page, (header + sizeof(hk_header_t) - 1) / page};
        for (unsigned k = 0, at; k < 2; k++) {
            for (at = 0; at < n && pages[at] != in[k]; at++)
                continue;
            pages[at] = in[k];
            n = at == n ? n + 1 : n;
        }
    }
    CHECK_EQ(hk_own_written(), n * page);
    hk_meta_visit(add_bytes, &others);
    hk_map_visit_own(add_bytes, &others);
    CHECK_EQ(now().metadata, others + n * page);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    hak_trim();
    CHECK_EQ(hk_own_written(), n * page);
    CHECK(hk_held() - held >= n * page);
}

/* Freed fenced blocks, and blocks of no bytes, must leave the account of singles. */
static void fences_go(void) {
    void *nothings[70000];
    hk_singles_t before = hk_singles();
    for (unsigned i = 0; i < 2000; i++) {
        char *p = hak_malloc(40000 + i);
        p[0] = p[40000 + i - 1] = 1;
        hak_free(p);
    }
    CHECK_EQ(hk_singles().blocks, before.blocks);
    CHECK_EQ(hk_singles().bytes, before.bytes);
    for (unsigned i = 0; i < 70000; i++) {
        nothings[i] = hak_malloc(0);
        CHECK(nothings[i] != NULL && hak_usable_size(nothings[i]) == 0);
        if (i < 1000 && hk_guard->fences) /* they count as blocks, without bytes */
            CHECK(hk_singles().blocks == before.blocks + i + 1 &&
                  hk_singles().bytes == before.bytes);
    }
    for (unsigned i = 0; i < 70000; i++)
        hak_free(nothings[i]);
    CHECK_EQ(hk_singles().blocks, before.blocks);
    CHECK_EQ(hk_singles().bytes, before.bytes);
}

/* The process's mappings at present. */
static unsigned mappings_there(void) {
    static hk_os_lines_t lines;
    unsigned n = 0;
    CHECK(hk_os_mappings_open(&lines));
    while (hk_os_line(&lines) != NULL)
        n++;
    hk_os_lines_close(&lines);
    return n;
}

/* Neighbours must share a fence, so that a block costs about two mappings: a fork copies each. */
static void fences_are_shared(void) {
    enum { BLOCKS = 300, BYTES = 40000 };
    static char *blocks[BLOCKS];
    hak_trim();
    const unsigned before = mappings_there();
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_malloc(BYTES);
        CHECK_EQ(hk_map_kind(blocks[i]), HK_KIND_FENCED);
        blocks[i][0] = 1;
    }
    CHECK(mappings_there() < before + BLOCKS * 5 / 2);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    hak_trim();
}

/* Calls so far that map or unmap. */
static uint64_t mappings(void) { return hk_counted_ever(maps) + hk_counted_ever(munmap); }

/* Allocates and frees blocks one by one, of n bytes or up to `less` fewer; each must read as zero.
 * Returns how many calls to map or unmap that took. */
static uint64_t calls_for(unsigned blocks, size_t n, size_t less) {
    const uint64_t before = mappings();
    for (unsigned i = 0; i < blocks; i++) {
        const size_t bytes = n - 997 * i % less;
        char *p = hak_malloc(bytes);
        CHECK(hk_is_zero(p, bytes / 8 * 8));
        for (size_t at = bytes / 8 * 8; at < bytes; at++)
            CHECK_EQ(p[at], 0);
        memset(p, 'x', bytes);
        CHECK_EQ(hak_usable_size(p), bytes);
        hak_free(p);
    }
    return mappings() - before;
}

/* A freed block's mapping must be reused for the next block of as many pages or a few fewer, until a
 * trim. Mappings that are too large must go back at once. */
static void fences_are_used_again(void) {
    enum { BLOCKS = 200 };
    /* the blocks that wait have to be mapped once, by up to seven calls each, if the system's first choice
     * cannot be aligned */
    CHECK(calls_for(5 * BLOCKS, 102400, 1000) < 2 * BLOCKS);
    CHECK(calls_for(5 * BLOCKS, 102400, 12000) < BLOCKS);
    CHECK(calls_for(BLOCKS, 1024000, 1000) < BLOCKS / 2);
    calls_for(BLOCKS, 2 * HK_MIB, 1000); /* until such blocks may wait */
    CHECK(calls_for(BLOCKS, 2 * HK_MIB, 1000) < BLOCKS / 2);
    CHECK(calls_for(BLOCKS / 10, 4 * HK_MIB, 1000) > BLOCKS / 10);
    hak_trim();
    CHECK(calls_for(1, 102400, 1) > 0);
}

/* If hardly two blocks have the same size, a waiting mapping must be cut or grown to fit. The block must
 * read as zero and end at its fence. */
static void sizes_may_differ(void) {
    enum { BLOCKS = 600, LEAST = 100000, RANGE = 400000 };
    const size_t page = hk_os_page_size();
    hak_trim();
    const uint64_t before = hk_counted_ever(munmap);
    for (unsigned i = 0, state = 1; i < BLOCKS; i++) {
        state = state * 1103515245 + 12345;
        const size_t n = LEAST + state / 65536 * 7 % RANGE;
        char *p = hak_malloc(n);
        CHECK(p != NULL && hk_map_kind(p) == HK_KIND_FENCED && hk_is_zero(p, n / 8 * 8));
        CHECK(!hk_os_readable((char *)hk_align_up((uintptr_t)p + n, page)));
        memset(p, 0xa5, n);
        hak_free(p);
    }
    CHECK(hk_counted_ever(munmap) - before < BLOCKS / 3);
    hak_trim();
}

/* A process with much in use, which replaces a part of it again and again, must keep more freed blocks
 * than one with nothing else in use: it must need fewer calls. */
static void more_in_use_keeps_more(void) {
    enum { USED = 200, REPLACED = 60, ROUNDS = 8, BYTES = 500000 };
    static void *blocks[USED];
    uint64_t calls[2];
    for (unsigned much = 0; much < 2; much++) {
        const unsigned n = much ? USED : REPLACED;
        for (unsigned i = 0; i < n; i++)
            blocks[i] = hak_malloc(BYTES);
        const uint64_t before = mappings();
        for (unsigned round = 0; round < ROUNDS; round++) {
            for (unsigned i = 0; i < REPLACED; i++)
                hak_free(blocks[i]);
            for (unsigned i = 0; i < REPLACED; i++)
                blocks[i] = hak_malloc(BYTES);
        }
        calls[much] = mappings() - before;
        for (unsigned i = 0; i < n; i++)
            hak_free(blocks[i]);
        hak_trim();
    }
    CHECK(calls[1] < calls[0] / 4 * 3);
}

/* Memory kept for a freed block must count as held and as cached; a block that waits without memory
 * must not. */
static void what_is_kept_is_held(void) {
    enum { BYTES = 100000, NO_MORE = 100 * HK_MIB };
    hak_stats_t stats = {.size = sizeof stats};
    while (hak_trim() != 0)
        continue;
    CHECK(hak_stats_get(&stats) == 0);
    const size_t held = held_but_headers(), cached = stats.cached;
    hak_free(hak_malloc(BYTES));
    CHECK(held_but_headers() >= held + BYTES);
    CHECK(hak_stats_get(&stats) == 0 && stats.cached >= cached + BYTES);
    CHECK_EQ(hak_trim(), 1); /* memory went back */
    CHECK_EQ(held_but_headers(), held);
    hak_free(hak_malloc(NO_MORE));
    CHECK_EQ(held_but_headers(), held);
    CHECK(hak_stats_get(&stats) == 0 && stats.cached == cached);
}

/* At the limit, kept memory must go back before a block loses its fences. */
static void the_limit_comes_before(void) {
    enum { BLOCKS = 50, BYTES = 200000, OTHER = 3 * HK_MIB };
    static void *blocks[BLOCKS];
    hak_trim();
    const size_t held = held_but_headers();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = hak_malloc(BYTES);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    CHECK(held_but_headers() >= held + OTHER + HK_MIB);
    hk_limit_set(hk_held());
    for (unsigned i = 0; i < 3; i++) {
        void *p = hak_malloc(OTHER);
        CHECK_EQ(hk_map_kind(p), HK_KIND_FENCED);
        hak_free(p);
    }
    hk_limit_set(0);
}

/* Requests that can never be met must be refused without giving kept memory back, and later blocks must
 * be fenced as before. */
static void too_much_is_refused(void) {
    static const size_t vast[] = {(size_t)1 << 46, (size_t)1 << 47, (size_t)1 << 50};
    hak_free(hak_malloc(100000));
    const size_t held = held_but_headers();
    for (unsigned i = 0; i < sizeof vast / sizeof vast[0]; i++)
        if (!hk_os_grants_memory(vast[i]))
            CHECK(hak_malloc(vast[i]) == NULL);
    CHECK_EQ(held_but_headers(), held);
    void *p = hak_malloc(100000);
    CHECK_EQ(hk_map_kind(p), HK_KIND_FENCED);
    hak_free(p);
}

static uint64_t protections(void) { return hk_counted_ever(mprotect); }

/* Freed blocks are made inaccessible (closed), at most IN_A_ROW at once and one more per millisecond.
 * Each closing is one call, and reopening another: fails if more calls are made, or hardly any. */
static void closings_are_bounded_by_time(void) {
    enum { BLOCKS = 2000, IN_A_ROW = 64, BYTES = 40960 };
    hak_trim();
    usleep((IN_A_ROW + 1) * 1000);
    void *p = hak_malloc(BYTES);
    const uint64_t first = protections();
    hak_free(p);
    CHECK_EQ(protections(), first + 1);
    const uint64_t mapped = mappings(), before = protections(), began = hk_os_now_ms();
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(hak_malloc(BYTES));
    const uint64_t most = IN_A_ROW + hk_os_now_ms() - began + 1;
    CHECK(protections() - before <= 2 * most + 4 * (mappings() - mapped));
    CHECK(protections() - before >= IN_A_ROW / 2);
}

/* A vast freed block must wait, which keeps its addresses, unless addresses are limited. */
static void few_addresses(void) {
    enum { VAST = 100 * HK_MIB };
    for (unsigned bounded = 0; bounded < 2; bounded++) {
        hak_trim();
        hk_store_relaxed(&hk_region_bounded, bounded != 0);
        char *p = hak_malloc(VAST);
        CHECK(p != NULL && hk_map_kind(p) == HK_KIND_FENCED);
        const uint64_t before = hk_counted_ever(munmap);
        hak_free(p);
        CHECK_EQ(hk_counted_ever(munmap) - before, bounded);
        CHECK((hk_map_kind(p) == HK_KIND_FOREIGN) == (bounded != 0));
    }
    hk_store_relaxed(&hk_region_bounded, false);
}

/* A block that grows by a page at a time must move only now and then, and keep its contents, its tail
 * and a fence. */
static void grows_where_it_is(void) {
    enum { STEPS = 200, STEP = 4096, FIRST = 70001 };
    unsigned moves = 0;
    size_t n = FIRST;
    char *p = hak_malloc(n);
    memset(p, 1, n);
    for (unsigned i = 0; i < STEPS; i++, n += STEP) {
        char *q = hak_realloc(p, n + STEP);
        moves += q != p;
        p = q;
        CHECK_EQ(hak_usable_size(p), n + STEP);
        CHECK_EQ(p[0] + p[n - 1] + p[n], 2);
        memset(p + n, 1, STEP);
    }
    CHECK(moves >= 1 && moves <= 6);
    child_run(&child, write_there, p + n + hk_os_page_size());
    CHECK(child.status != 0);
    CHECK(*(char *)hidden(p + n) != 0); /* its tail */
    *(char *)hidden(p + n) ^= 1;
    CHECK_FAULT(free_it, p, "overflow", ", a block of 889201 bytes, at byte 889201");
    *(char *)hidden(p + n) ^= 1;
    hak_free(p);
}

static void let_go(void *unused) {
    (void)unused;
    hak_trim();
}

/* A header that the program has written to, or copied to another place, must not be believed. */
static void headers_are_sealed(void) {
    char *p = hak_malloc(100000), *other = hak_malloc(100000);
    hk_header_t *header = hk_header_at(p);
    CHECK(hk_header_block(header) == p && hk_header_of(p + 10) == header);
    header->start += HK_SLICE;
    CHECK(hk_header_of(p) == NULL);
    CHECK_FAULT(free_it, p, "invalid free", "");
    CHECK_FAULT(ask_size, p, "invalid pointer", "");
    header->start -= HK_SLICE;
    *hk_header_at(other) = *header; /* sealed for another address */
    CHECK_FAULT(free_it, other, "invalid free", "");
    hak_free(p);
    header->bytes += HK_SLICE;
    CHECK_FAULT(let_go, header, "underflow", "");
    header->bytes -= HK_SLICE;
    hak_trim();
}

/* Contents that look like a header must not be taken for one: only the real block may be found inside
 * the block. */
static void none_is_found_inside(void) {
    char *p = hak_aligned_alloc(65536, 131072);
    for (size_t at = 1; at < 65536; at += 1000)
        CHECK(hak_room(p + at) == 131072 - at && hk_fence_around(p + at).block == p);
    hk_header_t *forged = (hk_header_t *)(void *)p;
    *forged = *hk_header_at(p);
    forged->block += 4096;
    CHECK(hk_header_of(p + 4096) == hk_header_at(p));
    CHECK_FAULT(free_it, p + 4096, "invalid free", "");
    hak_free(p);
}

/* ---- blocks of no bytes ---- */

static void read_there(void *p) { (void)*(volatile const char *)p; }

/* An access shortly before a block of no bytes must be reported for that block, not for a free neighbour.
 * An access to a freed one must be reported as a use after free. */
static void before_nothing(void) {
    char line[160], *p = hak_malloc(0);
    for (int at = -1; at >= -9; at -= 8) {
        child_run(&child, read_there, p + at);
        snprintf(line, sizeof line,
                 "hakmem: fatal: out of bounds: %p, a block of 0 bytes, at byte %d,", (void *)p,
                 at);
        CHECK(child.status != 0 && strstr(child.text, line) == child.text);
    }
    hak_free(p);
    child_run(&child, read_there, p);
    CHECK(strstr(child.text, "hakmem: fatal: use after free: ") == child.text);
}

/* An address near which no block ever was must not be reported as a freed block. */
static void beside_nothing(void) {
    char said[160], *p = hak_malloc(0);
    while (!hk_nothing_has(p - 48) || !hk_nothing_has(p + 48)) /* at an end of their range */
        p = hak_malloc(0);
    for (int at = -40; at <= 40; at += 80) {
        child_run(&child, read_there, p + at);
        snprintf(said, sizeof said, "hakmem: fatal: out of bounds: %p, in thread ",
                 (void *)(p + at));
        CHECK(child.status != 0 && strstr(child.text, said) == child.text);
    }
    CHECK_FAULT(free_it, p + 48, "invalid free", ", a block of 0 bytes");
    hak_free(p);
}

/* ---- hak_check_range() and hak_room(), for checked copies ---- */

static void look_at_one(void *p) { hak_check_range(p, 1); }
static void look_at_all(void *p) { hak_check_range(p, SIZE_MAX); }
static void look_at_many(void *p) { hak_check_range(p, 1000); }
static void look_beyond(void *p) { hak_check_range((char *)p + 43, 1); }
static void look_at_much(void *p) { hak_check_range(p, (size_t)PTRDIFF_MAX + 1); }

/* Ranges beyond a block must be reported, even impossibly long ones; a block of no bytes counts as in
 * use. */
static void checked_ranges(void) {
    char *p = hak_malloc(40), *nothing = hak_aligned_alloc(64, 0);
    hak_check_range(p, 40);
    hak_check_range(p + 39, 1);
    CHECK_EQ(hak_room(p + 8), 32);
    CHECK_EQ(hak_room(nothing), 0);
    CHECK_FAULT(look_at_all, p, "overflow", ", a block of 40 bytes, at byte 40");
    CHECK_FAULT(look_at_much, p, "overflow", ", a block of 40 bytes, at byte 40");
    CHECK_FAULT(look_at_many, p, "overflow", ", a block of 40 bytes, at byte 40");
    CHECK_FAULT(look_beyond, p, "overflow", ", a block of 40 bytes, at byte 43");
    CHECK_FAULT(look_at_one, nothing, "overflow", ", a block of 0 bytes, at byte 0");
    hak_free(nothing);
    hak_free(p);
    CHECK_EQ(hak_room(p), 0);
    CHECK_FAULT(look_at_one, p, "use after free", ", at byte 0");
}

int main(void) {
    guard();
    if (hk_guard->fences) {
        headers_count(); /* before any other header exists */
        beside_nothing();
    }
    fences_go();
    if (hk_guard->fences) {
        fences_are_shared();
        fences_are_used_again();
        sizes_may_differ();
        more_in_use_keeps_more();
        what_is_kept_is_held();
        the_limit_comes_before();
        too_much_is_refused();
        closings_are_bounded_by_time();
        few_addresses();
        grows_where_it_is();
        headers_are_sealed();
        none_is_found_inside();
        before_nothing();
    }
    checked_ranges();
}
