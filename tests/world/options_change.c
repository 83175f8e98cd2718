// Every option that may change while the process runs changes, at random and all the time, under
// threads that allocate: blocks keep their contents, and forks in between end well.
#include "churn.h"
#include "process.h"

enum { CHANGES = 3000, THREADS = 3, CHANGES_PER_FORK = 300 };

static const struct {
    const char *name, *values[3];
} options[] = {
    {"HAKMEM_SS_MEM_LEAN", {"0", "1", "1"}},
    {"HAKMEM_SS_MEM_LEAN_DECOMMIT", {"OFF", "FREE", "DONTNEED"}},
    {"HAKMEM_SS_MEM_LEAN_TARGET_MB", {"0", "1", "64"}},
    {"HAKMEM_TINY_FRONT_METRICS", {"0", "1", "0"}},
    {"HAKMEM_TINY_FRONT_ENABLE_ULTRAHOT", {"0", "1", "0"}},
    {"HAKMEM_TINY_FRONT_ENABLE_SLL", {"0", "1", "0"}},
    {"HAKMEM_TINY_FRONT_ENABLE_UNIFIED", {"0", "1", "0"}},
    {"HAKMEM_TINY_FRONT_DISABLE_HEAPV2", {"0", "1", "0"}},
    {"HAKMEM_TINY_C7_HOT", {"0", "1", "0"}},
    {"HAKMEM_ALLOC_PASSDOWN_SSOT", {"0", "1", "0"}},
    {"HAKMEM_SECTIONS_SAMPLE", {"0", "1", "10"}},
    {"HAKMEM_GUARD_SAMPLE", {"0", "100", "10000"}},
    {"HAKMEM_LIMIT_MB", {"0", "1000", "10000"}},
    {"HAKMEM_LIMIT_PERCENT", {"0", "90", "100"}},
};

static int (*ctl)(const char *, const char *, char *, size_t);

static void change(uint64_t *rng) {
    size_t option = rng_below(rng, sizeof options / sizeof *options);
    const char *value = options[option].values[rng_below(rng, 3)];
    char now[32];
    int problem = ctl(options[option].name, value, NULL, 0);
    CHECK(problem == 0, "%s=%s: %s", options[option].name, value, strerror(problem));
    CHECK(ctl(options[option].name, NULL, now, sizeof now) == 0 && strcmp(now, value) == 0,
          "%s was set to %s and is %s", options[option].name, value, now);
}

static void fork_once(uint64_t *rng) {
    pid_t pid = fork();
    CHECK(pid >= 0, "fork");
    if (pid == 0) {
        watchdog(30);
        for (int i = 0; i < 10; i++) {
            change(rng);
            churn_step(rng);
        }
        _exit(0);
    }
    CHECK_CHILD_OK(pid, "a child that changes options");
}

int main(void) {
    world_begin(100);
    WORLD_FIND(ctl, "hak_ctl");
    if (ctl == NULL)
        world_skip("no hak_ctl: this is not hakmem");
    uint64_t rng = 4711;
    churn_start(THREADS);
    for (int i = 0; i < CHANGES; i++) {
        change(&rng);
        churn_step(&rng);
        if (i % CHANGES_PER_FORK == 0)
            fork_once(&rng);
    }
    churn_finish(THREADS);
    return 0;
}
