/* The process's start and end: reads the options, begins and ends all that they ask for, and writes
 * the proof of whether hakmem serves malloc. */
#include <stdlib.h>

#include "api/api.h"
#include "api/asked.h"
#include "backend/pagemap.h"
#include "base/calls.h"
#include "base/report.h"
#include "base/worker.h"
#include "config/config.h"
#include "config/listing.h"
#include "config/table.h"
#include "front/boundary.h"
#include "front/guarded.h"
#include "front/magazine.h"
#include "front/watched.h"
#include "hakmem/hakmem.h"
#include "policy/purger.h"
#include "record/record.h"

/* Refers to malloc as any program does. Its address proves only a yes: in a program that is not
 * position independent, malloc's address may be that of a stub. Then the page map says whether a
 * block of it is ours. Another allocator's block is leaked: not every free is ready before main. */
bool hk_is_serving(void) {
    void *(*volatile serving)(size_t) = malloc;
    if (!HK_NO_OVERRIDE && serving == hk_own_malloc)
        return true;
    void *p = serving(1);
    const bool ours = hk_map_kind(p) != HK_KIND_FOREIGN;
    if (ours)
        free(p);
    return ours;
}

HK_EXPORT int hak_is_serving(void) { return hk_is_serving(); }

/* A line longer than hk_line_t, written by one write so that the processes of a tree can share the
 * file. Holds the settings of all options at their longest. */
typedef struct {
    size_t len;
    char text[16384];
} proof_t;

static void append(proof_t *proof, const hk_line_t *line) {
    size_t n = hk_min(line->len, sizeof proof->text - proof->len);
    memcpy(proof->text + proof->len, line->text, n);
    proof->len += n;
}

/* A process with only the defaults touches none of the tables: writing the proof must not change
 * what is measured. */
static void append_settings(proof_t *proof) {
    bool first = true;
    for (unsigned i = 0; i < HK_OPTION_COUNT; i++) {
        hk_line_t line = {0};
        if (!first)
            hk_line_str(&line, ",");
        if (i != HK_OPTION_proof && hk_load_relaxed(&hk_origins[i]) != HK_FROM_DEFAULT &&
            hk_config_put_setting(&line, i)) {
            first = false;
            append(proof, &line);
        }
    }
}

static void append_head(proof_t *proof) {
    char exe[512] = "";
    if (HK_CALL(other, syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", exe, sizeof exe - 1)) <
        0)
        exe[0] = '\0';
    hk_line_t line = {0};
    hk_line_put(&line, "{\"hakmem\":\"" HK_VERSION "\",\"pid\":%lu,\"exe\":\"",
                HK_CALL(other, getpid()));
    hk_line_json(&line, exe);
    hk_line_put(&line, "\",\"serving\":%s,\"profile\":\"",
                hk_is_serving() ? "true,\"allocator\":\"hakmem\""
                                : "false,\"allocator\":\"another\"");
    if (hk_option_origin(profile) == HK_FROM_DEFAULT)
        hk_line_str(&line, HK_PROFILE_DEFAULT);
    else
        hk_option_print(&line, HK_OPTION_profile, hk_option(profile));
    hk_line_str(&line, "\",\"settings\":{");
    append(proof, &line);
}

static void write_proof(const char *path) {
    int fd = hk_open(path, O_WRONLY | O_CREAT | O_APPEND, HK_FOR_ALL);
    if (fd < 0) {
        hk_config_warn("HAKMEM_PROOF", path, hk_error_text(errno), "no proof is written");
        return;
    }
    proof_t proof;
    proof.len = 0;
    append_head(&proof);
    append_settings(&proof);
    hk_line_t end = {0};
    hk_line_str(&end, "}}\n");
    append(&proof, &end);
    const int error = hk_write_all(fd, proof.text, proof.len);
    if (error != 0)
        hk_config_warn("HAKMEM_PROOF", path, hk_error_text(error), "the proof is not whole");
    HK_CALL(other, close(fd));
}

/* Whether stderr is kept open for the end. Not if only files are written: a warning about a failed
 * one does not justify that a reader of a closed stderr waits for the process's end. */
static bool reports_on_stderr(void) {
    const char *stats = hk_option(stats), *dump = hk_option(front_dump);
    return (stats != NULL && stats[strcspn(stats, ":")] == '\0') ||
           (dump != NULL && strcmp(dump, "1") == 0) || hk_option(os_stats) != 0 ||
           hk_option(leaks) != 0;
}

/* The part that few processes ask for. */
static HK_COLD void begin(void) {
    const int saved = errno;
    if (hk_option(proof) != NULL)
        write_proof(hk_option(proof));
    if (hk_option(asked)) {
        if (reports_on_stderr()) {
            hk_stderr_keep();
            hk_thread_served(); /* installs the fork handler: a forked child is to have no copy */
        }
        hk_prewarm_check();
        hk_policy_apply();
        hk_limit_apply(true);
        hk_asked_start();
        hk_stats_begin();
        hk_profile_begin();
        hk_live_begin();
        hk_recording_begin();
    }
    errno = saved;
}

/* If no option is set, touches no page that the process does not need anyway. */
__attribute__((constructor(101))) static void start(void) {
    hk_config_load();
    hk_worker_begin();
    hk_front_start();
    if (hk_option(asked) || hk_option(proof) != NULL)
        begin();
}

/* The recording ends late, because other destructors still free their blocks. The quarantine is
 * checked before leaks are reported, which may end the process. */
static HK_COLD void end(void) {
    hk_stats_end();
    if (hk_option(record) != NULL)
        hk_record_end();
    if (hk_guarded())
        hk_guarded_finish();
    if (hk_watched())
        hk_profile_end();
}

__attribute__((destructor(101))) static void finish(void) {
    if (hk_option(asked))
        end();
    hk_thread_finish();
}
