/* What happens once per process: the fork handlers, the options, and the proof that we are serving. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/api.h"
#include "backend/region.h"
#include "base/report.h"
#include "config/config.h"
#include "front/thread.h"
#include "hakmem/hakmem.h"

/* malloc is referenced as any program refers to it: what it resolves to is what serves the process. */
HK_EXPORT int hak_is_serving(void) {
    void *(*volatile serving)(size_t) = malloc;
    return serving == hak_malloc;
}

/* One line appended by one write, so that the processes of a tree can share the file. */
static void write_proof(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
        hk_config_warn("HAKMEM_PROOF", path, "cannot be opened for appending", "no proof is written");
        return;
    }
    char exe[512] = "";
    if (readlink("/proc/self/exe", exe, sizeof exe - 1) < 0)
        exe[0] = '\0';
    hk_line_t line = {0};
    hk_line_str(&line, "{\"hakmem\":\"" HK_VERSION "\",\"pid\":");
    hk_line_u64(&line, (uint64_t)getpid());
    hk_line_str(&line, ",\"exe\":\"");
    hk_line_json(&line, exe);
    hk_line_str(&line, "\",\"serving\":");
    hk_line_str(&line, hak_is_serving() ? "true" : "false");
    hk_line_str(&line, ",\"allocator\":\"hakmem\"}");
    hk_line_write(&line, fd);
    close(fd);
}

__attribute__((constructor(101))) static void start(void) {
    int saved = errno;
    hk_thread_start();
    hk_config_load();
    hk_thread_set_budget(hk_config.tcache_kb * HK_KIB);
    hk_region_set_cache_limit(hk_config.region_cache_mb * HK_MIB);
    hk_region_set_huge_pages(hk_config.thp != 0);
    if (hk_config.proof != NULL)
        write_proof(hk_config.proof);
    errno = saved;
}
