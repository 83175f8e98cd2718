/* Packs against a model of them; frees that are put aside; free pages given back by a purge, a look and a trim; and
 * the stock that their descriptors come from. */
#include "backend/pack.h"

#include "backend/meta.h"
#include "backend/pagemap.h"
#include "backend/purge.h"
#include "backend/region.h"
#include "check.h"
#include "config/config.h"
#include "hakmem/hakmem.h"
#include "policy/look.h"
#include "policy/purger.h"

enum { BLOCKS = 200, STEPS = 4000 };

static struct {
    char *p;
    size_t grains;
} model[BLOCKS];

/* Writes the block's index to both ends: an overlap overwrites one of them. */
static void mark(unsigned i) {
    CHECK_EQ(hk_pack_usable(model[i].p), model[i].grains * HK_GRAIN);
    model[i].p[0] = model[i].p[model[i].grains * HK_GRAIN - 1] = (char)i;
}

static void release(unsigned i, bool late) {
    CHECK_EQ(model[i].p[0], (char)i);
    CHECK_EQ(model[i].p[model[i].grains * HK_GRAIN - 1], (char)i);
    if (late)
        hk_pack_put_aside(model[i].p);
    else
        CHECK_EQ(hk_pack_free(model[i].p), model[i].grains * HK_GRAIN);
    model[i].p = NULL;
}

static void check_stats(size_t aside) {
    size_t blocks = 0, grains = aside;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks += model[i].p != NULL;
        grains += model[i].p != NULL ? model[i].grains : 0;
    }
    CHECK_EQ(hk_pack_stats().bytes, grains * HK_GRAIN);
    CHECK(aside != 0 || hk_pack_stats().blocks == blocks);
}

static void blocks_like_the_model(void) {
    uint64_t state = 1;
    for (unsigned step = 0; step < STEPS; step++) {
        const unsigned i = chance_below(&state, BLOCKS), n = 1 + chance_below(&state, HK_PACK_MOST);
        const size_t grains = (n + HK_GRAIN - 1) / HK_GRAIN;
        if (model[i].p == NULL) {
            const size_t align = (size_t)1 << chance_below(&state, 17);
            model[i].p = hk_pack_alloc(n, align);
            CHECK_EQ((uintptr_t)model[i].p % align, 0);
            CHECK(model[i].p != NULL && hk_map_kind(model[i].p) == HK_KIND_PACKED);
            model[i].grains = grains;
        } else if (chance_below(&state, 2) == 0 && hk_pack_resize(model[i].p, n)) {
            model[i].grains = grains;
        } else {
            CHECK(!hk_pack_resize(model[i].p, HK_PACK_MOST) ||
                  hk_pack_resize(model[i].p, model[i].grains * HK_GRAIN));
            release(i, false);
            continue;
        }
        mark(i);
        check_stats(0);
    }
}

/* A block put aside no longer counts as a block, but its bytes are not free until hk_pack_free_late(). */
static void what_is_put_aside(void) {
    size_t aside = 0;
    for (unsigned i = 0; i < BLOCKS; i += 2) {
        aside += model[i].p != NULL ? model[i].grains : 0;
        if (model[i].p != NULL)
            release(i, true);
    }
    CHECK(aside != 0);
    check_stats(aside);
    CHECK_EQ(hk_pack_free_late(), aside * HK_GRAIN);
    check_stats(0);
    CHECK_EQ(hk_pack_free_late(), 0);
}

static void free_it(void *p) { hk_pack_free(p); }

/* A pack is released with its last block; the next pack reuses its descriptor. A second thread that
 * frees that block finds no pack any more. */
static void all_goes(void) {
    const size_t live = hk_region_live(), packs = hk_pack_stats().packs;
    for (unsigned i = 0; i < BLOCKS; i++)
        if (model[i].p != NULL)
            release(i, false);
    CHECK_EQ(hk_pack_stats().packs, 0);
    CHECK_EQ(hk_region_live(), live - packs * HK_UNIT);
    char *p = hk_pack_alloc(1, 1), *q = hk_pack_alloc(HK_GRAIN, 1);
    CHECK(p != NULL && q == p + HK_GRAIN);
    CHECK(!hk_pack_resize(p, HK_GRAIN + 1));
    const void *descriptor = hk_map_owner(p);
    CHECK_EQ(hk_pack_stats().packs, 1);
    CHECK_EQ(hk_pack_free(p) + hk_pack_free(q), 2 * HK_GRAIN);
    CHECK_EQ(hk_pack_stats().packs, 0);
    CHECK_FATAL(free_it, q, "invalid free", q);
    p = hk_pack_alloc(1, 1);
    CHECK(p != NULL && hk_map_owner(p) == descriptor);
}

/* A purge gives back the whole OS pages of freed blocks, and nothing of their neighbours; the pages can be used
 * again, and are not purged twice. An aged purge leaves pages that were freed since the last one. */
static void pages_of_free_grains(void) {
    enum { N = 3, BYTES = 200 * HK_GRAIN };
    char *blocks[N];
    void *at = NULL;
    bool seen = false;
    size_t bytes;
    CHECK_EQ(hk_pack_stats().packs, 0);
    for (unsigned i = 0; i < N; i++)
        memset(blocks[i] = hk_pack_alloc(BYTES, 1), 'a', BYTES);
    CHECK(!hk_purge_pack(&at, HK_PURGE, false, &seen, &bytes) && bytes == 0);
    hk_pack_free(blocks[1]);
    CHECK_EQ(hk_pack_stats().dirty, BYTES);
    CHECK(!hk_purge_pack(&(void *){NULL}, HK_PURGE, true, &seen, &bytes) && seen);
    seen = false;
    CHECK(hk_purge_pack(&(void *){NULL}, HK_PURGE, true, &seen, &bytes) && !seen);
    CHECK(bytes > BYTES - 2 * hk_os_page_size() && bytes <= HK_UNIT - 2 * BYTES);
    CHECK_EQ(hk_pack_stats().dirty, 0);
    CHECK_EQ(hk_pack_stats().blocks, N - 1);
    for (size_t i = 0; i < BYTES; i++)
        CHECK(blocks[0][i] == 'a' && blocks[2][i] == 'a');
    CHECK_EQ(blocks[1][BYTES / 2], 0);
    CHECK(!hk_purge_pack(&(void *){NULL}, HK_PURGE, false, &seen, &bytes));
    CHECK(hk_pack_alloc(BYTES, 1) == blocks[1]);
    hk_pack_free(blocks[0]);
    hk_pack_free(blocks[1]);
    CHECK(hk_pack_alloc(BYTES, 1) == blocks[0]);
    CHECK_EQ(hk_pack_stats().dirty, BYTES);
    hk_pack_free(blocks[0]);
    hk_pack_free(blocks[2]);
    CHECK_EQ(hk_pack_stats().dirty, 0);
}

/* A whole look of the purger; with no target, memory worth a share of what is in use may stay. */
static void look(void) {
    hk_lock(&hk_look_lock);
    hk_look_begin(false, false);
    while (hk_look_step(HK_DECOMMIT_DONTNEED))
        continue;
    hk_unlock(&hk_look_lock);
}

static void trim(void) { hak_trim(); }

/* A look, and a trim, give back the free pages of packs; the blocks between them keep their contents. */
static void given_back_by(void (*way)(void), size_t may_stay) {
    enum { N = 60, BYTES = 200 * HK_GRAIN, HOLES = N / 2 * BYTES };
    char *blocks[N];
    CHECK_EQ(hk_pack_stats().packs, 0);
    for (unsigned i = 0; i < N; i++)
        memset(blocks[i] = hk_pack_alloc(BYTES, 1), 'a', BYTES);
    for (unsigned i = 0; i < N; i += 2)
        hk_pack_free(blocks[i]);
    CHECK(hk_pack_stats().dirty >= HOLES);
    way();
    CHECK(hk_pack_stats().dirty <= may_stay);
    for (unsigned i = 1; i < N; i += 2) {
        CHECK(blocks[i][0] == 'a' && memcmp(blocks[i], blocks[i] + 1, BYTES - 1) == 0);
        hk_pack_free(blocks[i]);
    }
}

/* Of two packs the one with just enough room serves, although the other is newer and has more room: packs are found
 * by their room. */
static void just_enough_room(void) {
    enum { FULL = HK_UNIT / HK_PACK_MOST, LEFT = 100 * HK_GRAIN };
    char *blocks[FULL + 1];
    CHECK_EQ(hk_pack_stats().packs, 0);
    for (unsigned i = 0; i <= FULL; i++)
        CHECK((blocks[i] = hk_pack_alloc(HK_PACK_MOST, 1)) != NULL);
    CHECK_EQ(hk_pack_stats().packs, 2);
    CHECK(hk_pack_resize(blocks[1], HK_PACK_MOST - LEFT));
    char *small = hk_pack_alloc(LEFT, 1), *next = hk_pack_alloc(LEFT, 1);
    CHECK(small == blocks[1] + HK_PACK_MOST - LEFT);
    CHECK(next == blocks[FULL] + HK_PACK_MOST);
    hk_pack_free(small);
    hk_pack_free(next);
    for (unsigned i = 0; i <= FULL; i++)
        hk_pack_free(blocks[i]);
    CHECK_EQ(hk_pack_stats().packs, 0);
}

/* The hole of an aligned block serves the next such block, although a hole of that length need not hold one at
 * another address. If no free run is long enough at any address, a run that happens to be aligned serves. */
static void aligned_holes(void) {
    enum { N = 40, ALIGN = 8192, BYTES = 40000, STEP = 5 * ALIGN };
    char *blocks[N];
    CHECK_EQ(hk_pack_stats().packs, 0);
    for (unsigned i = 0; i < N; i++)
        CHECK((blocks[i] = hk_pack_alloc(BYTES, ALIGN)) != NULL &&
              (uintptr_t)blocks[i] % ALIGN == 0);
    CHECK_EQ(hk_pack_stats().packs, 1);
    char *rest = hk_pack_alloc(HK_UNIT - N * STEP, 1); /* fills the pack */
    CHECK(rest == blocks[0] + N * STEP);
    for (unsigned i = 1; i < N; i += 3) {
        hk_pack_free(blocks[i]);
        CHECK(hk_pack_alloc(BYTES, ALIGN) == blocks[i]);
    }
    CHECK_EQ(hk_pack_stats().packs, 1);
    char *most = hk_pack_alloc(HK_PACK_MOST, HK_PACK_ALIGN);
    CHECK(most != NULL && (uintptr_t)most % HK_PACK_ALIGN == 0);
    hk_pack_free(most);
    hk_pack_free(rest);
    for (unsigned i = 0; i < N; i++)
        hk_pack_free(blocks[i]);
    CHECK_EQ(hk_pack_stats().packs, 0);
}

typedef struct {
    uint64_t mine;
    hk_stocked_t kept;
} item_t;

static hk_stock_t stock = HK_STOCK(item_t, kept);

static void descriptors_are_used_again(void) {
    item_t *items[8];
    size_t known = 0;
    for (unsigned i = 0; i < 8; i++) {
        items[i] = hk_stock_take(&stock);
        CHECK(items[i] != NULL && items[i]->mine == 0);
        items[i]->mine = i + 1;
    }
    hk_stock_put(&stock, items[3]);
    hk_stock_put(&stock, items[5]);
    CHECK(hk_stock_take(&stock) == items[5] && items[5]->mine == 6);
    CHECK(hk_stock_take(&stock) == items[3] && items[3]->mine == 4);
    for (const item_t *item = hk_load_acquire(&stock.all); item != NULL; item = item->kept.next)
        known |= (size_t)1 << item->mine;
    CHECK_EQ(known, 0x1fe);
    const item_t *fresh = hk_stock_take(&stock);
    CHECK(fresh != NULL && fresh->mine == 0);
}

int main(void) {
    hak_free(hak_malloc(1)); /* sets up the allocator */
    hk_store_relaxed(&hk_config.lean_decommit, (uint64_t)HK_DECOMMIT_OFF);
    hk_store_relaxed(&hk_config.lean_target_mb, (uint64_t)0);
    hk_policy_apply(); /* nobody else purges */
    pages_of_free_grains();
    given_back_by(look, 2 * HK_MIB);
    given_back_by(trim, 0);
    just_enough_room();
    aligned_holes();
    blocks_like_the_model();
    what_is_put_aside();
    all_goes();
    descriptors_are_used_again();
    return 0;
}
