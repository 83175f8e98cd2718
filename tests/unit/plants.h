/* Proves that the assertions and walkers of a debug build can fail. Each plant runs twice, in
 * children: the plain steps must pass; with a corruption or misuse planted among them, the process
 * must end by the expected assertion. */
#pragma once

#include "base/report.h"
#include "check.h"
#include "config/config.h"
#include "hakmem/hakmem.h"
#include "os/os.h"
#include "policy/purger.h"

typedef struct {
    void (*run)(bool planted);
    const char *name, *assertion;
    bool planted;
} plant_t;

#define PLANT(name, assertion)                                                                     \
    { name, #name, assertion, false }

static inline void run_plant(void *argument) {
    const plant_t *plant = argument;
    plant->run(plant->planted);
}

/* Stops purging, so that nothing but the plants changes the heap. Call before the first plant. */
static inline void nobody_else_purges(void) {
    hk_store_relaxed(&hk_config.lean_decommit, (uint64_t)HK_DECOMMIT_OFF);
    hk_store_relaxed(&hk_config.region_cache_mb, (uint64_t)64);
    hk_policy_apply();
    hak_free(hak_malloc(1));
}

static inline void check_plant(plant_t plant) {
    static child_t child;
    child_run(&child, run_plant, &plant);
    if (child.status != 0)
        dprintf(STDERR_FILENO, "%s, nothing planted: %s\n", plant.name, child.text);
    CHECK_EQ(child.status, 0);
    plant.planted = true;
    child_run(&child, run_plant, &plant);
    const bool failed = strncmp(child.text, "hakmem: assertion failed: ", 26) == 0 &&
                        strstr(child.text, plant.assertion) != NULL;
    if (!failed)
        dprintf(STDERR_FILENO, "%s: expected %s, got: %s\n", plant.name, plant.assertion,
                child.text);
    CHECK(failed);
    CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
}
