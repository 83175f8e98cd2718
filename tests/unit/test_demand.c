/* How much free memory may stay beside the target: breath, learned from the second
 * round and faded by quiet. */
#include "backend/demand.h"

#include "check.h"

#define TARGET (10 * HK_MIB)
#define ROUND (90 * HK_MIB)

/* What may stay when a process that has brought in so much has freed all of it. */
static size_t allows(hk_demand_t *demand, uint64_t touched, uint64_t now) {
    return hk_demand_allows(demand, touched, TARGET, now);
}

static void a_peak_is_no_breath(void) {
    hk_demand_t demand = {0};
    CHECK_EQ(allows(&demand, 0, 1), TARGET);
    CHECK_EQ(hk_demand_allows(&demand, 500 * HK_MIB, 2 * TARGET, 2), 2 * TARGET);
    CHECK_EQ(allows(&demand, 500 * HK_MIB, 3), TARGET);
}

/* Rounds of ROUND bytes, one a second: given back after the first and the second, kept from the
 * third on. */
static void the_second_round_shows_it(void) {
    hk_demand_t demand = {0};
    uint64_t touched = ROUND, now = 1000;
    for (unsigned round = 0; round < 2; round++, touched += ROUND, now += 1000) {
        CHECK_EQ(allows(&demand, touched, now), TARGET);
        hk_demand_given(&demand, touched, ROUND / 2, now); /* in two steps */
        CHECK_EQ(allows(&demand, touched, now + 1), TARGET);
        hk_demand_given(&demand, touched, ROUND - ROUND / 2, now + 1);
    }
    CHECK_EQ(allows(&demand, touched, now), TARGET + ROUND);
    CHECK_EQ(allows(&demand, touched, now + 2000), TARGET + ROUND); /* nothing new was brought in */
}

/* However often it is asked for meanwhile. */
static void asking_adds_nothing(void) {
    hk_demand_t demand = {0};
    hk_demand_given(&demand, ROUND, ROUND, 1000);
    hk_demand_given(&demand, 2 * ROUND, ROUND, 1001);
    const uint64_t touched = 2 * ROUND + HK_MIB;
    for (unsigned i = 0; i < 10; i++)
        CHECK_EQ(allows(&demand, touched, 1002), TARGET + HK_MIB);
    hk_demand_given(&demand, touched, HK_MIB, 1003);
    CHECK_EQ(allows(&demand, touched + HK_MIB, 1004), TARGET + 2 * HK_MIB);
}

/* What grows is no breath: no more can be taken again than was given back. */
static void growth_is_no_breath(void) {
    hk_demand_t demand = {0};
    hk_demand_given(&demand, ROUND, HK_MIB, 1000);
    for (uint64_t i = 1; i < 20; i++) {
        CHECK(allows(&demand, ROUND * i, 1000 + i) <= TARGET + 3 * HK_MIB);
        if (i < 3)
            hk_demand_given(&demand, ROUND * i, HK_MIB, 1000 + i);
    }
}

/* Nor is what grows amid a pass that of it which is given back only behind that. */
static void growth_amid_a_pass_is_no_breath(void) {
    hk_demand_t demand = {0};
    hk_demand_given(&demand, ROUND, HK_MIB, 1000);
    hk_demand_given_more(&demand, ROUND + 20 * HK_MIB, 30 * HK_MIB);
    CHECK_EQ(demand.given, 31 * HK_MIB);
    hk_demand_given(&demand, ROUND + 20 * HK_MIB, HK_MIB, 1001);
    CHECK_EQ(demand.once, HK_MIB);
    hk_demand_given(&demand, ROUND + 50 * HK_MIB, HK_MIB, 1002); /* but what comes behind it is */
    CHECK_EQ(demand.once, 30 * HK_MIB);
}

static void quiet_fades_it(void) {
    hk_demand_t demand = {0};
    uint64_t touched = ROUND, now = 1000;
    for (unsigned round = 0; round < 2; round++, touched += ROUND, now += 1000)
        hk_demand_given(&demand, touched, ROUND, now);
    CHECK_EQ(allows(&demand, touched, now), TARGET + ROUND);
    CHECK_EQ(allows(&demand, touched, now + HK_DEMAND_MS), TARGET + ROUND / 2);
    CHECK_EQ(allows(&demand, touched, now + 2 * HK_DEMAND_MS), TARGET + ROUND / 4);
    CHECK_EQ(allows(&demand, touched, now + 100 * HK_DEMAND_MS), TARGET);
}

/* A round a minute later is a first one again, or nearly so. */
static void slow_rounds_do_not_count(void) {
    hk_demand_t demand = {0};
    uint64_t touched = ROUND, now = 1000;
    for (unsigned round = 0; round < 4; round++, touched += ROUND, now += 60000) {
        CHECK(allows(&demand, touched, now) <= TARGET + ROUND / 32);
        hk_demand_given(&demand, touched, ROUND, now);
    }
}

/* What stays away costs nothing; what is taken again is worth its time. */
static void what_is_taken_again_is_on_credit(void) {
    hk_credit_t credit = {0};
    CHECK_EQ(hk_credit_allows(&credit, 0, 8), 2 * HK_MIB);
    CHECK_EQ(hk_credit_allows(&credit, 0, 1000000), 32 * HK_MIB);
    CHECK_EQ(hk_credit_allows(&credit, 30 * HK_MIB, 1000000), 2 * HK_MIB);
    CHECK_EQ(hk_credit_allows(&credit, 30 * HK_MIB, 1000004), 3 * HK_MIB);
    CHECK_EQ(hk_credit_allows(&credit, 90 * HK_MIB, 1000005), 0);
    CHECK_EQ(hk_credit_allows(&credit, 90 * HK_MIB, 1000009), HK_MIB);
    hk_credit_used(&credit, 2 * HK_MIB);
    CHECK_EQ(hk_credit_allows(&credit, 90 * HK_MIB, 1000009), 0);
}

int main(void) {
    a_peak_is_no_breath();
    the_second_round_shows_it();
    asking_adds_nothing();
    growth_is_no_breath();
    growth_amid_a_pass_is_no_breath();
    quiet_fades_it();
    slow_rounds_do_not_count();
    what_is_taken_again_is_on_credit();
    return 0;
}
