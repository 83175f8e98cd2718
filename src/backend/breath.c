#include "backend/breath.h"

#include "backend/demand.h"
#include "base/counters.h"
#include "base/lock.h"
#include "os/os.h"

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_BREATH);
static hk_demand_t demand; /* lock: breath */

size_t hk_breath_allows(size_t always) {
    hk_lock(&lock);
    const size_t most = hk_demand_allows(&demand, hk_counted_ever(touched), always, hk_os_now_ms());
    hk_unlock(&lock);
    return most;
}

void hk_breath_given(size_t bytes, bool more) {
    hk_lock(&lock);
    if (more)
        hk_demand_given_more(&demand, hk_counted_ever(touched), bytes);
    else
        hk_demand_given(&demand, hk_counted_ever(touched), bytes, hk_os_now_ms());
    hk_unlock(&lock);
}

size_t hk_breath_now(void) {
    hk_lock(&lock);
    const size_t breath = demand.breath;
    hk_unlock(&lock);
    return breath;
}

void hk_breath_forget(void) {
    hk_lock(&lock);
    demand = (hk_demand_t){.touched = hk_counted_ever(touched)};
    hk_unlock(&lock);
}

void hk_breath_forked(void) { demand = (hk_demand_t){.touched = hk_counted_ever(touched)}; }
