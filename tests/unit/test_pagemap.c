/* The page map: kinds and owners at foreign addresses, the boundaries of its leaves and of the flat map's OS pages,
 * agreement of its two forms, and a process without the flat map. */
#include "backend/pagemap.h"

#include <sys/mman.h>

#include "check.h"
#include "front/emergency.h"
#include "hakmem/hakmem.h"
#include "os/os.h"

#if defined(__x86_64__)
enum { ADDRESS_BITS = 47 };
#else
enum { ADDRESS_BITS = 48 };
#endif

#define GIB (1024 * HK_MIB)

/* The map needs no memory behind an address; nothing is mapped this low in a 64-bit process. */
static char *at(uintptr_t address) { return (char *)address; }
#define NOWHERE ((uintptr_t)0x30000000000)

static unsigned flat_kind(const void *p) {
    return hk_load_relaxed(
        &hk_flat.bytes[((uintptr_t)p >> HK_SLICE_SHIFT) & hk_load_relaxed(&hk_flat.mask)]);
}

static void check_kind(const void *p, unsigned kind) {
    CHECK_EQ(hk_map_kind(p), kind);
    if (hk_map_has_flat())
        CHECK_EQ(flat_kind(p), kind);
}

/* Any kind but FOREIGN. */
static unsigned a_kind(size_t i) { return 1 + (unsigned)(i % (HK_KIND_COUNT - 1)); }

/* Commits [start, start+bytes), sets neighbouring slices to different kinds and reads each back at its first and last
 * byte; the slices beside the range stay foreign. */
static void whole_range(uintptr_t start, size_t bytes) {
    size_t slices = bytes / HK_SLICE;
    CHECK(hk_map_commit(at(start), bytes));
    for (size_t i = 0; i < slices; i++)
        hk_map_set(at(start + i * HK_SLICE), 1, a_kind(i));
    for (size_t i = 0; i < slices; i++) {
        check_kind(at(start + i * HK_SLICE), a_kind(i));
        check_kind(at(start + (i + 1) * HK_SLICE - 1), a_kind(i));
    }
    check_kind(at(start - 1), HK_KIND_FOREIGN);
    check_kind(at(start + bytes), HK_KIND_FOREIGN);
    hk_map_set(at(start), slices, HK_KIND_FOREIGN);
    for (size_t i = 0; i < slices; i++)
        check_kind(at(start + i * HK_SLICE), HK_KIND_FOREIGN);
}

static void boundaries(void) {
    const uintptr_t leaf = 4 * GIB, os_page = (uintptr_t)hk_os_page_size() << HK_SLICE_SHIFT;
    whole_range(NOWHERE, HK_SLICE);
    whole_range(NOWHERE + leaf - HK_UNIT, 2 * HK_UNIT);
    whole_range(NOWHERE + 2 * leaf + os_page - HK_SLICE, 2 * HK_SLICE);
    whole_range(NOWHERE + 4 * leaf - os_page - HK_SLICE, 3 * os_page);
    whole_range(((uintptr_t)1 << ADDRESS_BITS) - 2 * HK_UNIT, HK_UNIT);
}

static void foreign_addresses(void) {
    static const uintptr_t addresses[] = {
        0,
        1,
        HK_SLICE,
        NOWHERE + 64 * GIB,
        ((uintptr_t)1 << ADDRESS_BITS) - 1,
        (uintptr_t)1 << ADDRESS_BITS,
        ((uintptr_t)1 << ADDRESS_BITS) + NOWHERE,
        (uintptr_t)1 << 63,
        0xffff800000000000,
        UINTPTR_MAX,
    };
    CHECK(hk_map_commit(at(NOWHERE), HK_UNIT));
    hk_map_set(at(NOWHERE), 1, 7); /* must not be found again through higher address bits */
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        CHECK_EQ(hk_map_kind(at(addresses[i])), HK_KIND_FOREIGN);
        CHECK(hk_map_owner(at(addresses[i])) == NULL);
    }
    hk_map_set(at(NOWHERE), 1, HK_KIND_FOREIGN);
}

static void owners(void) {
    static char one, two;
    uintptr_t first = NOWHERE + 4 * GIB - HK_UNIT, second = NOWHERE + 4 * GIB;
    CHECK(hk_map_commit(at(first), 2 * HK_UNIT));
    CHECK(hk_map_owner(at(first)) == NULL);
    hk_map_set_owner(at(first), &one);
    hk_map_set_owner(at(second + 5), &two);
    CHECK(hk_map_owner(at(first)) == &one && hk_map_owner(at(second - 1)) == &one);
    CHECK(hk_map_owner(at(second)) == &two && hk_map_owner(at(second + HK_UNIT - 1)) == &two);
    CHECK(hk_map_owner(at(first - 1)) == NULL && hk_map_owner(at(second + HK_UNIT)) == NULL);
    hk_map_set_owner(at(first), NULL);
    CHECK(hk_map_owner(at(first)) == NULL && hk_map_owner(at(second)) == &two);
    hk_map_set_owner(at(second), NULL);
}

/* For live blocks of all kinds both forms of the map give the class or kind of the block's first slice. */
static void blocks_of_ours(void) {
    for (size_t n = 1; n <= 64 * HK_MIB; n *= 2) {
        char *p = hak_malloc(n);
        CHECK(p != NULL);
        unsigned kind = n <= HK_MID_MAX   ? hk_class_of(n)
                        : n <= 2 * HK_MIB ? (unsigned)HK_KIND_LARGE
                                          : (unsigned)HK_KIND_HUGE;
        check_kind(p, kind);
        if (n > HK_SLICE)
            check_kind(p + n - 1, HK_KIND_INTERIOR);
        hak_free(p);
        if (n > HK_SLICE)
            CHECK(hk_map_kind(p) == HK_KIND_FREE || hk_map_kind(p) == HK_KIND_FOREIGN);
    }
}

/* Run in a process limited to 1 GiB of address space: the flat map is refused, and the allocator works without it. */
static void without_flat_map(void) {
    void *blocks[100];
    hak_free(hak_malloc(1));
    CHECK(!hk_map_has_flat());
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = hak_malloc(1 + i * i * i);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], (int)i, 1 + i * i * i);
    }
    for (size_t i = 0; i < 100; i++) {
        CHECK(hk_map_kind(blocks[i]) != HK_KIND_FOREIGN);
        CHECK(((unsigned char *)blocks[i])[i * i * i] == i);
        hak_free(blocks[i]);
    }
    boundaries();
    foreign_addresses();
    CHECK_EQ(hk_load_relaxed(&hk_flat.bytes[0]), 0);
}

static void exec_with_little_address_space(void *self) {
    setrlimit(RLIMIT_AS, &(struct rlimit){GIB, GIB});
    execl(self, "test_pagemap", "without-flat-map", (char *)NULL);
    _exit(127);
}

static void without_flat_map_in_child(void) {
    static char self[] = "/proc/self/exe";
    static child_t child;
    if (is_emulated("limits on address space"))
        return;
    if (HK_NO_OVERRIDE) {
        puts("skipped under a sanitizer, which needs terabytes of address space: without_flat_map");
        return;
    }
    child_run(&child, exec_with_little_address_space, self);
    CHECK_TEXT(child.text, "");
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

typedef struct {
    const char *from, *to;
    size_t runs, slices;
} visits_t;

static void note_visit(const char *start, size_t slices, const _Atomic uint8_t *kinds,
                       void *argument) {
    visits_t *visits = argument;
    const char *end = start + slices * HK_SLICE;
    CHECK(slices != 0 && hk_map_unit(start) == hk_map_unit(end - 1));
    for (size_t i = 0; i < slices; i++)
        CHECK(hk_load_relaxed(&kinds[i]) == hk_map_kind(start + i * HK_SLICE));
    if (start >= visits->from && end <= visits->to) {
        visits->runs++;
        visits->slices += slices;
    }
}

/* A visit is cut at the ends of units. */
static void visits_are_cut(void) {
    char *p = at(NOWHERE + 64 * GIB);
    const size_t in_unit = HK_UNIT / HK_SLICE;
    visits_t visits = {p, p + 4 * HK_UNIT, 0, 0};
    CHECK(hk_map_commit(p, 4 * HK_UNIT));
    hk_map_set(p + HK_SLICE, 2 * in_unit, HK_KIND_FREE);
    hk_map_set(p + 3 * HK_UNIT + HK_SLICE, 1, HK_KIND_HUGE);
    hk_map_visit(note_visit, &visits);
    CHECK_EQ(visits.runs, 4);
    CHECK_EQ(visits.slices, 2 * in_unit + 1);
    hk_map_set(p, 4 * in_unit, HK_KIND_FOREIGN);
}

/* A single slice among foreign ones is visited, wherever it lies in its leaf. `written` has bits only for the OS pages
 * of the leaf that have entries; a visit reads no others. */
static void lone_slices_are_visited(void) {
    const size_t slices[] = {3, HK_LEAF_SLICES / 2 + 1, HK_LEAF_SLICES - 1};
    char *p = at(NOWHERE + 64 * GIB);
    visits_t visits = {p, p + 4 * GIB, 0, 0};
    unsigned written = 0;
    CHECK(hk_map_commit(p, 4 * GIB));
    for (unsigned i = 0; i < 3; i++) {
        hk_map_set(p + slices[i] * HK_SLICE, 1, HK_KIND_FREE);
        written |= 1u << slices[i] / hk_os_page_size();
    }
    CHECK_EQ(hk_load_relaxed(&hk_map_leaf(p)->written), written);
    hk_map_visit(note_visit, &visits);
    CHECK_EQ(visits.runs, 3);
    CHECK_EQ(visits.slices, 3);
    for (unsigned i = 0; i < 3; i++)
        hk_map_set(p + slices[i] * HK_SLICE, 1, HK_KIND_FOREIGN);
}

/* The system's flags of the mapping in which p lies. */
static void flags_of(const void *p, char *flags, size_t bytes) {
    uintptr_t start = 0, end = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps != NULL);
    flags[0] = '\0';
    while (flags[0] == '\0' && fgets(line, sizeof line, maps) != NULL) {
        sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end);
        if (start <= (uintptr_t)p && (uintptr_t)p < end && strstr(line, "VmFlags:") == line)
            snprintf(flags, bytes, "%s", line);
    }
    fclose(maps);
}

static void check_left_out(const void *at_address) {
    static char flags[512];
    flags_of((const char *)hk_flat.bytes + ((uintptr_t)at_address >> HK_SLICE_SHIFT), flags,
             sizeof flags);
    if (flags[0] == '\0')
        puts("skipped: the system has no flags of mappings: check_left_out");
    else
        CHECK(strstr(flags, " dd") != NULL);
}

/* Core dumps leave out the flat map, both its reserved part and its part in use: a core would contain 2 GiB of it. */
static void is_left_out_of_cores(void) {
    void *used = hak_malloc(1);
    check_left_out(at(2 * NOWHERE));
    check_left_out(used);
    hak_free(used);
}

/* A block such as a signal handler gets that interrupts the process's first allocation: made before the flat map, it is
 * known to the flat map afterwards. */
static void block_before_the_flat_map(void) {
    CHECK(!hk_map_has_flat());
    char *early = hk_emergency_alloc(100, 16);
    hak_free(hak_malloc(1));
    CHECK(hk_map_has_flat() && hk_map_kind(early) == HK_KIND_EMERGENCY);
    hak_free(early);
    CHECK(hk_map_kind(early) == HK_KIND_FOREIGN);
}

static void check_readable(uintptr_t address) {
    if (address >> ADDRESS_BITS == 0)
        CHECK(hk_os_readable((const char *)hk_flat.bytes + (address >> HK_SLICE_SHIFT)));
}

/* After the flat map is given up its entries near blocks, and near the program break, can still be read: a free that
 * read the mask before may read its entry only now. */
static void given_up(void *unused) {
    const uintptr_t block = (uintptr_t)hak_malloc(1);
    (void)unused;
    hk_map_give_up_flat();
    CHECK(!hk_map_has_flat());
    check_readable(0);
    check_readable(block - 4 * GIB);
    check_readable(block + 4 * GIB);
    check_readable((uintptr_t)sbrk(0));
}

static void near_parts_stay(void) {
    static child_t child;
    child_run(&child, given_up, NULL);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "without-flat-map") == 0) {
        without_flat_map();
        return 0;
    }
    block_before_the_flat_map();
    boundaries();
    foreign_addresses();
    owners();
    blocks_of_ours();
    visits_are_cut();
    lone_slices_are_visited();
    is_left_out_of_cores();
    near_parts_stay();
    without_flat_map_in_child();
    return 0;
}
