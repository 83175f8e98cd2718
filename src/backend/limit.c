#include "backend/limit.h"

#include "backend/region.h"
#include "os/os.h"

static _Atomic size_t limit;                                    /* atomic: any thread; 0: none */
static _Atomic size_t held;                                     /* atomic: any thread */
static _Atomic size_t single_blocks, single_bytes, single_kept; /* atomic: any thread */
/* atomic: any thread; bytes beside all regions; the most that these and the regions had together */
static _Atomic size_t beside, peak;
static _Atomic size_t own_written; /* atomic: any thread */

void hk_limit_set(size_t bytes) { hk_store_relaxed(&limit, bytes); }
size_t hk_limit(void) { return hk_load_relaxed(&limit); }
size_t hk_held(void) { return hk_load_relaxed(&held); }
void hk_held_add(size_t bytes) { hk_add_relaxed(&held, bytes); }

void hk_held_drop(size_t bytes) {
    hk_assert(bytes <= hk_held()); /* it was added */
    hk_sub_relaxed(&held, bytes);
}

/* Reads again if `live` has changed meanwhile: a range between live and cached might count
 * twice. */
HK_NOINLINE void hk_mapped_more(void) {
    size_t live, now, most = hk_load_relaxed(&peak);
    do {
        live = hk_region_live();
        now = hk_load_seq(&beside);
        now += live + hk_region_cached();
    } while (live != hk_region_live());
    while (most < now && !hk_cas_seq(&peak, &most, now))
        continue;
}

size_t hk_mapped_peak(void) { return hk_load_relaxed(&peak); }

void hk_mapped_own(size_t bytes) {
    hk_add_seq(&beside, bytes);
    hk_mapped_more();
}

void hk_own_is_written(size_t bytes) {
    hk_add_relaxed(&own_written, bytes);
    hk_held_add(bytes);
    hk_mapped_own(bytes);
}

size_t hk_own_written(void) { return hk_load_relaxed(&own_written); }

void hk_single_comes(size_t bytes) {
    hk_add_relaxed(&single_blocks, (size_t)1);
    hk_add_relaxed(&single_bytes, bytes);
    hk_mapped_own(bytes);
}

void hk_single_goes(size_t bytes) {
    hk_sub_relaxed(&single_blocks, (size_t)1);
    hk_sub_relaxed(&single_bytes, bytes);
    hk_sub_relaxed(&beside, bytes);
}

void hk_single_is_kept(size_t bytes) {
    hk_add_relaxed(&single_kept, bytes);
    hk_mapped_own(bytes);
}

void hk_single_is_gone(size_t bytes) {
    hk_sub_relaxed(&single_kept, bytes);
    hk_sub_relaxed(&beside, bytes);
}

hk_singles_t hk_singles(void) {
    return (hk_singles_t){hk_load_relaxed(&single_blocks), hk_load_relaxed(&single_bytes),
                          hk_load_relaxed(&single_kept)};
}

/* The limit is read once: another thread may end it between two reads. */
static size_t most_held(void) {
    const size_t most = hk_limit();
    return most != 0 ? most : SIZE_MAX;
}

bool hk_limit_is_near(void) {
    const size_t used = hk_minus(hk_held(), hk_load_relaxed(&single_kept));
    return used + HK_UNIT > most_held() / 2;
}

bool hk_limit_excludes(size_t bytes, size_t counted) {
    const size_t now = hk_minus(hk_held(), counted);
    return bytes > now && (bytes > most_held() || !hk_os_grants_memory(bytes - now));
}

/* By compare-and-swap rather than add and undo: a thread that is refused must not cause another's
 * refusal. */
bool hk_held_take(size_t bytes, size_t moving) {
    const size_t most = most_held();
    size_t now = hk_held();
    hk_assert(moving <= bytes);
    do {
        hk_assert(moving <= now); /* it was added */
        if (now - moving > most || bytes > most - (now - moving))
            return false;
    } while (!hk_cas_seq(&held, &now, now - moving + bytes));
    return true;
}
