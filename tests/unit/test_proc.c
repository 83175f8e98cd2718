/* Figures read from the system's files: the memory limit of the process's cgroups, from a tree of folders made here,
 * and the process's memory from /proc/self/status. */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>

#include "check.h"

static char root[64];

static const char *in_root(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static void put(const char *name, const char *text) {
    int fd = open(in_root(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static int unread;

static uint64_t limit_of(const char *membership) {
    char file[256];
    put("membership", membership);
    snprintf(file, sizeof file, "%s", in_root("membership"));
    errno = E2BIG;
    uint64_t limit = hk_os_memory_limit(file, in_root("mount"), &unread);
    CHECK(errno == E2BIG);
    return limit;
}

static void make_tree(void) {
    static const char *const folders[] = {"mount",        "mount/a",         "mount/a/b",
                                          "mount/a/b/c",  "mount/ab",        "outside",
                                          "mount/memory", "mount/memory/old"};
    snprintf(root, sizeof root, "/tmp/test_proc.%d", (int)getpid());
    CHECK(mkdir(root, 0700) == 0);
    for (unsigned i = 0; i < sizeof folders / sizeof folders[0]; i++)
        CHECK(mkdir(in_root(folders[i]), 0700) == 0);
    put("mount/a/memory.max", "1000000000\n");
    put("mount/a/memory.high", "max\n");
    put("mount/a/b/memory.max", "max\n");
    put("mount/a/b/memory.high", "800000000\n");
    put("mount/a/b/c/memory.max", "2000000000\n");
    put("mount/ab/memory.max", "7\n");
    put("outside/memory.max", "3\n");
    put("mount/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("mount/memory/old/memory.limit_in_bytes", "500000000\n");
}

static void remove_tree(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
}

static void the_lowest_on_the_way_up(void) {
    CHECK_EQ(limit_of("0::/\n"), 0);
    CHECK_EQ(limit_of("0::/a\n"), 1000000000);
    CHECK_EQ(limit_of("0::/a/b\n"), 800000000);
    CHECK_EQ(limit_of("0::/a/b/c\n"), 800000000);
    CHECK_EQ(limit_of("0::/ab"), 7);
    CHECK_EQ(limit_of("4:memory:/ab\n1:name=systemd:/ab\n0::/a\n"), 1000000000);
}

static void the_older_tree(void) {
    CHECK_EQ(limit_of("4:memory:/\n0::/\n"), 0);
    CHECK_EQ(limit_of("4:memory:/old/away\n0::/\n"), 500000000);
    CHECK_EQ(limit_of("11:blkio,memory:/old\n"), 500000000);
    CHECK_EQ(limit_of("4:memory,blkio:/old\n0::/ab\n"), 7);
    CHECK_EQ(limit_of("4:memory2:/old\n5:mem:/old\n6:name=memory:/old\n"), 0);
    CHECK_EQ(limit_of("4:memory:/../old\n"), 0);
    CHECK_EQ(limit_of("4:memory\n:memory:/old\n"), 500000000);
}

static void groups_that_cannot_be_seen(void) {
    CHECK_EQ(limit_of("0::/gone/away\n"), 0);
    CHECK_EQ(limit_of("0::/../outside\n"), 0);
    CHECK_EQ(limit_of("4:memory:/ab\n"), 0);
    CHECK_EQ(limit_of(""), 0);
    CHECK_EQ(limit_of("nonsense"), 0);
    CHECK_EQ(limit_of("0::"), 0);
    CHECK_EQ(unread, 0);
    /* as in a container: the group's name is the host's, the mount point is its own folder */
    put("mount/memory.max", "600");
    CHECK_EQ(limit_of("0::/host/name/of/it\n"), 600);
    CHECK_EQ(limit_of("0::/../outside\n"), 600);
    CHECK_EQ(limit_of("0::/a\n"), 600);
    CHECK_EQ(limit_of("0::/ab\n"), 7);
    CHECK(unlink(in_root("mount/memory.max")) == 0);
}

/* The reason is reported in `unread`, and limits that could be read apply. */
static void files_that_cannot_be_read(void) {
    CHECK_EQ(hk_os_memory_limit(in_root("no-such-file"), "/", &unread), 0);
    CHECK_EQ(unread, ENOENT);
    CHECK_EQ(hk_os_memory_limit(in_root("mount"), "/", &unread), 0); /* a folder */
    CHECK_EQ(unread, EISDIR);
    CHECK_EQ(limit_of("0::/a\n"), 1000000000);
    CHECK_EQ(unread, 0);
    CHECK(mkdir(in_root("mount/a/b/c/d"), 0700) == 0);
    CHECK(mkdir(in_root("mount/a/b/c/d/memory.max"), 0700) == 0);
    CHECK_EQ(limit_of("0::/a/b/c/d\n"), 800000000);
    CHECK_EQ(unread, EISDIR);
}

static void numbers_that_are_none(void) {
    static const char *const wrong[] = {"", "\n", "max", "-5", "x7", "99999999999999999999999"};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        put("mount/ab/memory.max", wrong[i]);
        CHECK_EQ(limit_of("0::/ab\n"), 0);
    }
    put("mount/ab/memory.max", "18446744073709551615");
    CHECK_EQ(limit_of("0::/ab\n"), 0);
    put("mount/ab/memory.max", "4611686018427387904");
    CHECK_EQ(limit_of("0::/ab\n"), 0);
    put("mount/ab/memory.max", "4611686018427387903");
    CHECK_EQ(limit_of("0::/ab\n"), 4611686018427387903);
}

static void names_as_long_as_can_be(void) {
    static char line[9000];
    memset(line, 'x', sizeof line);
    memcpy(line, "0::/", 4);
    line[sizeof line - 1] = '\0';
    CHECK_EQ(limit_of(line), 0);
    for (unsigned i = 4; i < sizeof line - 1; i += 2)
        line[i] = '/';
    CHECK_EQ(limit_of(line), 0);
    CHECK_EQ(hk_os_memory_limit(in_root("membership"), line, &unread), 0);
}

/* In the status file the list of groups precedes the memory figures: with thousands of groups these are still found.
 * Without the right to join groups only the short list is tested. */
static void groups_by_the_thousand(void) {
    enum { GROUPS = 4000 };
    static gid_t groups[GROUPS];
    for (unsigned i = 0; i < GROUPS; i++)
        groups[i] = 100000 + i;
    for (unsigned joined = 0; joined < 2; joined++) {
        const size_t now = hk_os_status("VmRSS:"), most = hk_os_status("VmHWM:");
        CHECK(now >= hk_os_page_size() && now <= most);
        CHECK_EQ(hk_os_status("NoSuch:"), 0);
        if (setgroups(GROUPS, groups) != 0)
            dprintf(STDOUT_FILENO, "not with many groups: %s\n", strerror(errno));
    }
}

int main(void) {
    make_tree();
    the_lowest_on_the_way_up();
    the_older_tree();
    groups_that_cannot_be_seen();
    files_that_cannot_be_read();
    numbers_that_are_none();
    names_as_long_as_can_be();
    remove_tree();
    groups_by_the_thousand();
    return 0;
}
