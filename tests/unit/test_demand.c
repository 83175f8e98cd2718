/* How much free memory may stay on top of the target: the breath, which the second round of taking and
 * freeing teaches, and which fades without new rounds. */
#include "backend/demand.h"

#include "check.h"

#define TARGET (10 * HK_MIB)
#define ROUND (90 * HK_MIB)

/* Bytes that may stay free at `now`, after the process has brought in `touched` bytes in all. */
static size_t allows(hk_demand_t *demand, uint64_t touched, uint64_t now) {
    return hk_demand_allows(demand, touched, TARGET, now);
}

/* Memory that was brought in but never given back must not raise what may stay. */
static void a_peak_is_no_breath(void) {
    hk_demand_t demand = {0};
    CHECK_EQ(allows(&demand, 0, 1), TARGET);
    CHECK_EQ(hk_demand_allows(&demand, 500 * HK_MIB, 2 * TARGET, 2), 2 * TARGET);
    CHECK_EQ(allows(&demand, 500 * HK_MIB, 3), TARGET);
}

/* Rounds of ROUND bytes, one a second: freed memory must go back after the first and the second, and
 * stay from the third on. */
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

/* The same question asked again must get the same answer, and change nothing. */
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

/* A growing process gives back little: its breath must not exceed the bytes that it gave back. */
static void growth_is_no_breath(void) {
    hk_demand_t demand = {0};
    hk_demand_given(&demand, ROUND, HK_MIB, 1000);
    for (uint64_t i = 1; i < 20; i++) {
        CHECK(allows(&demand, ROUND * i, 1000 + i) <= TARGET + 3 * HK_MIB);
        if (i < 3)
            hk_demand_given(&demand, ROUND * i, HK_MIB, 1000 + i);
    }
}

/* Bytes that one pass gives back after the process has grown (hk_demand_given_more()) must not make
 * that growth look like memory taken again. */
static void growth_amid_a_pass_is_no_breath(void) {
    hk_demand_t demand = {0};
    hk_demand_given(&demand, ROUND, HK_MIB, 1000);
    hk_demand_given_more(&demand, ROUND + 20 * HK_MIB, 30 * HK_MIB);
    CHECK_EQ(demand.given, 31 * HK_MIB);
    hk_demand_given(&demand, ROUND + 20 * HK_MIB, HK_MIB, 1001);
    CHECK_EQ(demand.once, HK_MIB);
    hk_demand_given(&demand, ROUND + 50 * HK_MIB, HK_MIB, 1002); /* later growth counts */
    CHECK_EQ(demand.once, 30 * HK_MIB);
}

/* Without a new round, the breath must halve every HK_DEMAND_MS. */
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

/* Rounds a minute apart must count as first ones, or nearly so. */
static void slow_rounds_do_not_count(void) {
    hk_demand_t demand = {0};
    uint64_t touched = ROUND, now = 1000;
    for (unsigned round = 0; round < 4; round++, touched += ROUND, now += 60000) {
        CHECK(allows(&demand, touched, now) <= TARGET + ROUND / 32);
        hk_demand_given(&demand, touched, ROUND, now);
    }
}

/* Credit for giving back old memory: it grows with time up to its bound, and memory that is taken
 * again uses it up. */
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
