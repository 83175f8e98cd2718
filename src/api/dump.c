/* HAKMEM_TINY_FRONT_DUMP: the front metrics as CSV when the process exits. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/calls.h"
#include "base/report.h"
#include "config/config.h"
#include "front/observed.h"

static void warn(const char *problem) {
    hk_config_warn("HAKMEM_TINY_FRONT_DUMP", hk_option(front_dump), problem,
                   "no front metrics are written");
}

/* For appending, so that a forked child does not overwrite its parent's lines; -1 where it cannot
 * be. */
static int open_path(const char *pattern) {
    hk_line_t path = {0};
    bool numbered;
    if (!hk_line_path(&path, pattern, &numbered))
        return -1;
    return HK_CALL(other, open(path.text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
}

/* Runs after the program's own exit handlers, on whichever thread called exit(). Other threads may
 * go on: then what they do meanwhile may be counted or not. */
__attribute__((destructor)) static void dump(void) {
    const char *target = hk_option(front_dump);
    if (HK_FAST || target == NULL || *target == '\0' || strcmp(target, "0") == 0)
        return;
    hk_metrics_sum_t sum;
    if (!hk_front_metrics(&sum)) {
        warn("a signal handler ended the process inside the allocator");
        return;
    }
    bool to_stderr = strcmp(target, "1") == 0;
    int fd = to_stderr ? STDERR_FILENO : open_path(target);
    if (fd < 0) {
        warn("cannot be opened for appending");
        return;
    }
    hk_metrics_write(&sum, fd);
    if (!to_stderr)
        HK_CALL(other, close(fd));
}
