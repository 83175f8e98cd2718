/* Checks the account of bytes held (backend/limit.h). Valid while no other thread allocates and no
 * block has a mapping of its own. */
#pragma once

#include "backend/limit.h"
#include "backend/meta.h"
#include "backend/region.h"
#include "check.h"

static inline void add_held(const void *start, size_t bytes, void *sum) {
    CHECK(start != NULL);
    *(size_t *)sum += bytes;
}

static inline void check_held(void) {
    size_t metadata = 0;
    hk_meta_visit(add_held, &metadata);
    CHECK_EQ(hk_held(), hk_region_live() + hk_region_cached() + metadata);
}
