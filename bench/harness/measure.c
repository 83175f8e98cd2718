#include "measure.h"

#include <inttypes.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "procfs.h"

/* Below this a run says more about its own beginning than about the work. */
static const double shortest_sample_s = 0.01;

static double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

static void add_rusage(hb_usage_t *usage, int who) {
    struct rusage r;
    if (getrusage(who, &r) != 0) {
        hb_die("getrusage failed");
    }
    usage->user_s += seconds_of(r.ru_utime);
    usage->sys_s += seconds_of(r.ru_stime);
    usage->minflt += (uint64_t)r.ru_minflt;
    usage->majflt += (uint64_t)r.ru_majflt;
}

double hb_wall_now(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) {
        hb_die("clock_gettime failed");
    }
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

hb_usage_t hb_usage_now(void) {
    hb_usage_t usage = {.wall_s = hb_wall_now()};
    add_rusage(&usage, RUSAGE_SELF);
    return usage;
}

hb_usage_t hb_usage_now_with_children(void) {
    hb_usage_t usage = hb_usage_now();
    add_rusage(&usage, RUSAGE_CHILDREN);
    return usage;
}

hb_usage_t hb_usage_between(const hb_usage_t *from, const hb_usage_t *to) {
    return (hb_usage_t){
        .wall_s = to->wall_s - from->wall_s,
        .user_s = to->user_s - from->user_s,
        .sys_s = to->sys_s - from->sys_s,
        .minflt = to->minflt - from->minflt,
        .majflt = to->majflt - from->majflt,
    };
}

void hb_usage_add(hb_usage_t *sum, const hb_usage_t *part) {
    sum->wall_s += part->wall_s;
    sum->user_s += part->user_s;
    sum->sys_s += part->sys_s;
    sum->minflt += part->minflt;
    sum->majflt += part->majflt;
}

void hb_report(const hb_program_t *program, uint64_t ops, const hb_usage_t *usage,
               const char *extra) {
    const uint64_t peak_kb = hb_peak_rss_kb();
    const double rate = usage->wall_s > 0 ? (double)ops / usage->wall_s : 0;
    hb_text_t text = {0};
    hb_text_add(&text, "Throughput = %.0f operations per second, relative time: %.3fs.\n", rate,
                usage->wall_s);
    hb_text_add(&text, "{\"bench\":");
    hb_text_add_json(&text, program->name);
    hb_text_add(&text, ",\"params\":");
    hb_options_json(&text, program);
    hb_text_add(&text,
                ",\"ops\":%" PRIu64 ",\"seconds\":%.9f,\"ops_per_s\":%.1f,\"user_s\":%.6f,"
                "\"sys_s\":%.6f,\"minflt\":%" PRIu64 ",\"majflt\":%" PRIu64
                ",\"max_rss_kb\":%" PRIu64 ",\"smoke\":%s%s%s}\n",
                ops, usage->wall_s, rate, usage->user_s, usage->sys_s, usage->minflt, usage->majflt,
                peak_kb, hb_smoke ? "true" : "false", extra ? "," : "", extra ? extra : "");
    hb_text_write(&text, STDOUT_FILENO);
    hb_print(STDERR_FILENO, "[RSS] max_kb=%" PRIu64 "\n", peak_kb);
    if (!hb_smoke && usage->wall_s < shortest_sample_s) {
        hb_print(
            STDERR_FILENO,
            "bench: warning: the timed part took %.4f s; below %.2f s it is no sample, give it "
            "more work\n",
            usage->wall_s, shortest_sample_s);
    }
}
