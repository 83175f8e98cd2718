#include "backend/sidetable.h"

#include "backend/limit.h"
#include "backend/pagemap.h"
#include "os/os.h"

#define TABLE_BYTES (HK_LEAF_SLICES * HK_SIDE_BYTES)
/* What becomes writable at once: no call of the system for each block, and not much where a wild write could go. */
#define PART (128 * HK_KIB)
#define PARTS (TABLE_BYTES / PART)
_Static_assert(TABLE_BYTES % PART == 0 && PARTS < 64, "a bit for each");

typedef struct {
    _Atomic(char *) table; /* atomic: any thread */
    _Atomic uint64_t open; /* atomic: any thread; bit i: its i-th part can be written to */
} side_t;
typedef side_t sides_t[HK_MAP_LEAVES];
static _Atomic(sides_t *) all; /* atomic: any thread */
/* atomic: any thread; those with a table lie below the one, and so many of them above the other; 0: there are none */
static _Atomic size_t below, above;

static size_t leaf_of(const void *p) { return (uintptr_t)p >> HK_LEAF_SHIFT; }

static size_t offset_of(const void *p) { return hk_map_slice(p) * HK_SIDE_BYTES; }

static void count(size_t bytes) {
    hk_held_add(bytes);
    hk_mapped_own(bytes);
}

static sides_t *all_sides(void) {
    sides_t *is = hk_load_acquire(&all);
    if (HK_LIKELY(is != NULL))
        return is;
    sides_t *made = hk_os_map(sizeof *made, hk_os_page_size());
    if (made != NULL && hk_cas_seq(&all, &is, made)) {
        count(sizeof *made);
        return made;
    }
    if (made != NULL)
        hk_os_unmap(made, sizeof *made);
    return is;
}

static void raise(_Atomic size_t *bound, size_t to) {
    size_t was = hk_load_relaxed(bound);
    while (was < to && !hk_cas_seq(bound, &was, to))
        continue;
}

/* With a page before it and behind it that is never written to. */
static char *table_for(side_t *side, size_t leaf) {
    const size_t page = hk_os_page_size(), bytes = hk_align_up(TABLE_BYTES, page) + 2 * page;
    char *is = hk_load_acquire(&side->table);
    if (HK_LIKELY(is != NULL))
        return is;
    char *made = hk_os_reserve(bytes);
    if (made != NULL && hk_cas_seq(&side->table, &is, made + page)) {
        raise(&below, leaf + 1);
        raise(&above, HK_MAP_LEAVES - leaf);
        return made + page;
    }
    if (made != NULL)
        hk_os_unmap(made, bytes);
    return is;
}

static bool open_part(side_t *side, char *table, size_t part) {
    const uint64_t bit = (uint64_t)1 << part;
    if (HK_LIKELY((hk_load_acquire(&side->open) & bit) != 0))
        return true;
    if (!hk_os_protect(table + part * PART, PART, HK_READ_WRITE))
        return false;
    if ((hk_or_seq(&side->open, bit) & bit) == 0) /* else somebody else has, too */
        count(PART);
    return true;
}

void *hk_side_at(const void *p) {
    sides_t *sides = hk_load_acquire(&all);
    if (sides == NULL || leaf_of(p) >= HK_MAP_LEAVES)
        return NULL;
    char *table = hk_load_acquire(&(*sides)[leaf_of(p)].table);
    return table != NULL ? table + offset_of(p) : NULL;
}

void *hk_side_make(const void *p) {
    hk_assert(leaf_of(p) < HK_MAP_LEAVES);
    sides_t *sides = all_sides();
    side_t *side = sides != NULL ? &(*sides)[leaf_of(p)] : NULL;
    char *table = side != NULL ? table_for(side, leaf_of(p)) : NULL;
    const size_t at = offset_of(p);
    return table != NULL && open_part(side, table, at / PART) &&
                   open_part(side, table, (at + HK_SIDE_BYTES - 1) / PART)
               ? table + at
               : NULL;
}

static void visit_parts(side_t *side,
                        void (*visit)(const void *start, size_t bytes, void *argument),
                        void *argument) {
    const uint64_t open = hk_load_acquire(&side->open);
    const char *table = hk_load_acquire(&side->table);
    for (size_t part = 0; part < PARTS; part++)
        if (open >> part & 1)
            visit(table + part * PART, PART, argument);
}

void hk_side_visit(void (*visit)(const void *start, size_t bytes, void *argument), void *argument) {
    sides_t *sides = hk_load_acquire(&all);
    if (sides == NULL)
        return;
    visit(sides, sizeof *sides, argument);
    const size_t end = hk_load_seq(&below);
    for (size_t leaf = HK_MAP_LEAVES - hk_load_seq(&above); leaf < end; leaf++)
        visit_parts(&(*sides)[leaf], visit, argument);
}
