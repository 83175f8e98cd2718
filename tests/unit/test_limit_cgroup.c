/* HAKMEM_LIMIT_PERCENT, a share of the cgroup's limit, in a mount namespace with a tmpfs in place of the
 * cgroups. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "api/api.h"
#include "backend/limit.h"
#include "check.h"
#include "config/config.h"
#include "limits.h"
#include "os/os.h"

static void *set_limit(void *unused) {
    limit_mb(100);
    return unused;
}

/* While one thread reads the cgroup's limit, which is a FIFO here, another sets both options. The limit
 * must be the later setting's, also once the read ends. */
static void overtaken(void) {
    static const char *const path = HK_OS_CGROUPS "/memory.max";
    pthread_t other;
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    hk_config.limit_percent = 50;
    CHECK(pthread_create(&other, NULL, set_limit, NULL) == 0);
    const int fd = open(path, O_WRONLY); /* returns once the other thread reads */
    CHECK(fd >= 0);
    set("HAKMEM_LIMIT_PERCENT", "0");
    limit_mb(200);
    CHECK_EQ(hk_limit(), 200 * HK_MIB);
    CHECK(close(fd) == 0 && pthread_join(other, NULL) == 0);
    CHECK_EQ(hk_limit(), 200 * HK_MIB);
}

static void with_a_cgroup(void *unused) {
    (void)unused;
    hk_config.limit_percent = 50;
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        _exit(UNIT_SKIPPED);
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", HK_OS_CGROUPS, "tmpfs", 0, NULL) != 0)
        _exit(UNIT_SKIPPED);
    hk_limit_apply(true);
    CHECK_EQ(hk_limit(), 0);
    int fd = open(HK_OS_CGROUPS "/memory.max", O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, "1073741824\n", 11) == 11 && close(fd) == 0);
    hk_limit_apply(true);
    CHECK_EQ(hk_limit(), 1073741824 / 100 * 50);
    limit_mb(100);
    CHECK_EQ(hk_limit(), 100 * HK_MIB);
    limit_mb(1000);
    CHECK_EQ(hk_limit(), 1073741824 / 100 * 50);
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, files.rlim_max}) == 0);
    errno = E2BIG;
    limit_mb(1000); /* no file can be opened: the last limit read must hold */
    CHECK_EQ(hk_limit(), 1073741824 / 100 * 50);
    CHECK_EQ(errno, E2BIG);
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    set("HAKMEM_LIMIT_PERCENT", "0");
    CHECK_EQ(hk_limit(), 1000 * HK_MIB);
    overtaken();
}

/* If the cgroup's files cannot be read, no limit follows, and one warning says so. */
static void without_files(void *unused) {
    (void)unused;
    hk_config.limit_percent = 50;
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0}) == 0);
    hk_limit_apply(true);
    CHECK_EQ(hk_limit(), 0);
    limit_mb(100); /* must not warn again */
}

int main(void) {
    static child_t child;
    child_run(&child, without_files, NULL);
    CHECK_TEXT(child.text,
               "hakmem: warning: HAKMEM_LIMIT_PERCENT=50 has no effect: what the cgroups of this "
               "process say of its memory cannot be read: Too many open files\n");
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    child_run(&child, with_a_cgroup, NULL);
    if (WIFEXITED(child.status) && WEXITSTATUS(child.status) == UNIT_SKIPPED)
        return unit_skip("no mount namespace can be had here");
    CHECK_TEXT(
        child.text,
        "hakmem: note: HAKMEM_LIMIT_PERCENT=50 has no effect: no cgroup limits the memory of "
        "this process\n");
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    return 0;
}
