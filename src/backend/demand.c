#include "backend/demand.h"

static void fade(hk_demand_t *demand, uint64_t now) {
    hk_assert(demand->faded_at <= now);
    for (; now - demand->faded_at >= HK_DEMAND_MS && (demand->once | demand->given) != 0;
         demand->faded_at += HK_DEMAND_MS) {
        demand->given /= 2;
        demand->once /= 2;
        demand->breath /= 2;
        demand->left /= 2;
    }
}

/* How many of the `given` bytes have been taken again by now: at most all that were touched
 * since. */
static size_t taken(const hk_demand_t *demand, uint64_t touched) {
    hk_assert(demand->touched <= touched);
    return (size_t)hk_min(touched - demand->touched, demand->given);
}

/* Notes the round so far. Returns how many bytes should have been kept: those taken again, and the
 * breath that was kept. */
static size_t note_round(hk_demand_t *demand, uint64_t touched, uint64_t now) {
    const size_t again = taken(demand, touched), needed = again != 0 ? again + demand->left : 0;
    const size_t twice = hk_min(demand->once, needed);
    if (twice > demand->breath) {
        demand->breath = twice;
        demand->faded_at = now;
    }
    return needed;
}

size_t hk_demand_allows(hk_demand_t *demand, uint64_t touched, size_t always, uint64_t now) {
    fade(demand, now);
    note_round(demand, touched, now);
    return always + demand->breath;
}

void hk_demand_given(hk_demand_t *demand, uint64_t touched, size_t bytes, uint64_t now) {
    fade(demand, now);
    demand->once = hk_max(demand->once, note_round(demand, touched, now));
    demand->given += bytes - taken(demand, touched);
    demand->left = demand->breath;
    demand->touched = touched;
    demand->faded_at = now;
}

/* Of the bytes touched meanwhile, at most `given` can have been taken again; the others do not
 * count. */
void hk_demand_given_more(hk_demand_t *demand, uint64_t touched, size_t bytes) {
    demand->touched += hk_minus(touched - demand->touched, demand->given);
    demand->given += bytes;
}

size_t hk_credit_allows(hk_credit_t *credit, uint64_t retaken, uint64_t now) {
    const size_t per_ms = 256 * HK_KIB, most = 32 * HK_MIB;
    const uint64_t more = hk_min(now - credit->at, most / per_ms) * per_ms;
    hk_assert(credit->retaken <= retaken && credit->at <= now);
    credit->bytes = hk_min(credit->bytes + more, most);
    hk_credit_used(credit, retaken - credit->retaken);
    credit->retaken = retaken;
    credit->at = now;
    return credit->bytes;
}

void hk_credit_used(hk_credit_t *credit, size_t bytes) {
    credit->bytes = hk_minus(credit->bytes, bytes);
}
