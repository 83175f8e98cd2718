/* Sources of option values: what HAKMEM_CONFIRM prints about them, copies of texts, calls before the
 * start, the cgroup's limit, and the environment of a setuid program. */
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "config_child.h"
#include "guard/guard.h"
#include "hakmem/hakmem.h"

extern char **environ;

/* ---- HAKMEM_CONFIRM ---- */

/* One line per option, in the table's order, with the origins in one column. */
static void confirmation(void) {
    static char *const environment[] = {"HAKMEM_CONFIRM=1", "HAKMEM_PROFILE=MIXED_TINYV3_C7_SAFE",
                                        "HAKMEM_TCACHE_KB=4096", "HAKMEM_STATS=text:/dev/null",
                                        NULL};
    run_with(environment);
    unsigned lines = 0;
    size_t column = 0;
    const char *line = child.text;
    for (; strncmp(line, "hakmem: ", 8) == 0; line += strcspn(line, "\n") + 1, lines++) {
        const char *name = hk_options[lines].env;
        CHECK(strncmp(line + 8, name, strlen(name)) == 0 && line[8 + strlen(name)] == ' ');
        size_t end = strcspn(line, "\n");
        for (unsigned i = 0; i < sizeof origins / sizeof origins[0]; i++) {
            size_t len = strlen(origins[i]);
            if (memcmp(line + end - len, origins[i], len) != 0)
                continue;
            CHECK(column == 0 || column == end - len);
            column = end - len;
        }
    }
    CHECK_EQ(lines, HK_OPTION_COUNT);
    static const char *const some[] = {
        "HAKMEM_PROFILE speed environment",         "HAKMEM_TCACHE_KB 4096 KiB environment",
        "HAKMEM_TINY_PREWARM_C5 64 blocks profile", "HAKMEM_THP 1 default",
        "HAKMEM_PROOF (not set) default",           "HAKMEM_STATS text:/dev/null environment"};
    char *to = child.text; /* runs of spaces become one */
    for (const char *from = child.text; *from != '\0'; from++)
        if (*from != ' ' || from[1] != ' ')
            *to++ = *from;
    *to = '\0';
    for (unsigned i = 0; i < sizeof some / sizeof some[0]; i++)
        CHECK(strstr(child.text, some[i]) != NULL);
}

/* ---- text options are copied: the program may overwrite its environment ---- */

static void overwrite_environment(void) {
    for (char **entry = environ; *entry != NULL; entry++)
        memset(*entry, '#', strlen(*entry));
    CHECK_TEXT(hk_option(stats), "json:/dev/null");
}

static void exec_overwriting(void *environment) {
    execle(self, self, "overwrite", (char *)NULL, (char **)environment);
    _exit(127);
}

static void texts_are_kept(void) {
    static char *const short_one[] = {"HAKMEM_STATS=json:/dev/null", NULL};
    child_run(&child, exec_overwriting, (void *)(uintptr_t)short_one);
    CHECK_TEXT(child.text, "");
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);

    static char entry[10000];
    memset(entry, 'y', sizeof entry);
    memcpy(entry, "HAKMEM_STATS=", 13);
    entry[sizeof entry - 1] = '\0';
    char *const long_one[] = {entry, NULL};
    run_with(long_one);
    CHECK(strncmp(child.text, "hakmem: warning: HAKMEM_STATS=yyy", 33) == 0);
    CHECK(strstr(child.text, "yyy...: longer than can be kept; ignored\n") != NULL);
    CHECK(strstr(child.text, "HAKMEM_STATS=(none) (default)\n") != NULL);
}

/* ---- options set before hakmem reads the environment take precedence over it ---- */

#ifdef __GLIBC__ /* other C libraries run nothing before the constructors */
static void set_early(int argc, char **argv, char **envp) {
    (void)envp;
    if (argc != 2 || strcmp(argv[1], "early") != 0)
        return;
    CHECK_EQ(hak_ctl("HAKMEM_SS_MEM_LEAN_TARGET_MB", "7", NULL, 0), 0);
    CHECK_EQ(hak_ctl("HAKMEM_SS_MEM_LEAN_DECOMMIT", "DONTNEED", NULL, 0), 0);
    CHECK_EQ(hak_ctl("HAKMEM_GUARD_SAMPLE", "100000", NULL, 0), HK_FAST ? EPERM : 0);
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **,
                                                                              char **) = set_early;

static void early(void) {
    CHECK_EQ(hk_option(lean_target_mb), 7);
    CHECK_EQ(hk_option_origin(lean_target_mb), HK_FROM_RUN_TIME);
    CHECK_EQ(hk_option(lean_decommit), HK_DECOMMIT_DONTNEED);
    CHECK(HK_FAST || (hk_option(guard) == 1 && hk_guarded() && hk_guard->kinds));
}

static void exec_early(void *environment) {
    execle(self, self, "early", (char *)NULL, (char **)environment);
    _exit(127);
}

static void set_before_the_start(void) {
    static char *const environment[] = {
        "HAKMEM_SS_MEM_LEAN_TARGET_MB=5", "HAKMEM_SS_MEM_LEAN_DECOMMIT=FREE",
        HK_FAST ? "HAKMEM_PROFILE=lean" : "HAKMEM_PROFILE=secure", NULL};
    child_run(&child, exec_early, (void *)(uintptr_t)environment);
    CHECK_TEXT(child.text, "");
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}
#else
static void early(void) {}
static void set_before_the_start(void) {}
#endif

/* ---- the cgroup's limit ---- */

/* The target for a limit must be a 64th of it, from 1 to 64 MiB. */
static void limits_and_targets(void) {
    static const uint64_t pairs[][2] = {{1, 1},    {63, 1},    {64, 1},    {128, 2},   {640, 10},
                                        {700, 10}, {4096, 64}, {4160, 64}, {65536, 64}};
    for (unsigned i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        CHECK_EQ(hk_config_target_mb(pairs[i][0] * HK_MIB), pairs[i][1]);
}

/* Turns purging on at run time: the target must follow from the cgroup's limit only then, and must
 * keep a value set by hak_ctl. */
static void control(void) {
    char text[16];
    CHECK_EQ(hak_ctl("HAKMEM_SS_MEM_LEAN_TARGET_MB", NULL, text, sizeof text), 0);
    CHECK_TEXT(text, "10");
    CHECK_EQ(hak_ctl("HAKMEM_SS_MEM_LEAN", "1", NULL, 0), 0);
    CHECK_EQ(hk_option_origin(lean_target_mb), HK_FROM_DEFAULT); /* no purging: no file is read */
    CHECK_EQ(hak_ctl("HAKMEM_SS_MEM_LEAN_DECOMMIT", "FREE", NULL, 0), 0);
    CHECK_EQ(hk_option(lean_target_mb), 16);
    CHECK_EQ(hk_option_origin(lean_target_mb), HK_FROM_CGROUP);
    CHECK_EQ(hak_ctl("HAKMEM_SS_MEM_LEAN_TARGET_MB", "5", text, sizeof text), 0);
    CHECK_TEXT(text, "16");
    CHECK_EQ(hak_ctl("HAKMEM_SS_MEM_LEAN", "0", NULL, 0), 0);
    CHECK_EQ(hak_ctl("HAKMEM_SS_MEM_LEAN", "1", NULL, 0), 0);
    CHECK_EQ(hk_option(lean_target_mb), 5);
    CHECK_EQ(hk_option_origin(lean_target_mb), HK_FROM_RUN_TIME);
}

static void exec_controlling(void *environment) {
    execle(self, self, "control", (char *)NULL, (char **)environment);
    _exit(127);
}

/* Enters a mount namespace of its own, with a tmpfs in place of the cgroups that sets a limit of
 * 1 GiB. False: not permitted. */
static bool limit_to_a_gigabyte(void) {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return false;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", HK_OS_CGROUPS, "tmpfs", 0, NULL) != 0)
        return false;
    int fd = open(HK_OS_CGROUPS "/memory.max", O_WRONLY | O_CREAT, 0600);
    return fd >= 0 && write(fd, "1073741824\n", 11) == 11 && close(fd) == 0;
}

static void with_a_limit(void *unused) {
    (void)unused;
    if (!limit_to_a_gigabyte())
        _exit(UNIT_SKIPPED);
    static const struct {
        char *environment[4];
        const char *target;
    } cases[] = {
        {{"HAKMEM_SS_MEM_LEAN_DECOMMIT=FREE"}, "16 (cgroup)"},
        {{"HAKMEM_SS_MEM_LEAN_DECOMMIT=DONTNEED"}, "16 (cgroup)"},
        {{"HAKMEM_SS_MEM_LEAN_DECOMMIT=FREE", "HAKMEM_SS_MEM_LEAN=0"}, "10 (default)"},
        {{"HAKMEM_SS_MEM_LEAN=1"}, "10 (default)"},
        {{"HAKMEM_CONFIRM=1"}, "10 (default)"},
        {{"HAKMEM_PROFILE=lean"}, "4 (profile)"},
        {{"HAKMEM_PROFILE=lean", "HAKMEM_SS_MEM_LEAN_TARGET_MB=7"}, "7 (environment)"},
        {{"HAKMEM_SS_MEM_LEAN_DECOMMIT=FREE", "HAKMEM_SS_MEM_LEAN_TARGET_MB=10"},
         "10 (environment)"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "HAKMEM_SS_MEM_LEAN_TARGET_MB=%s\n", cases[i].target);
        check_says(cases[i].environment, line);
    }
    static char *const none[] = {NULL};
    child_run(&child, exec_controlling, (void *)(uintptr_t)none);
    CHECK_TEXT(child.text, "");
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

static void cgroup_limits(void) {
    static child_t limited;
    child_run(&limited, with_a_limit, NULL);
    if (WIFEXITED(limited.status) && WEXITSTATUS(limited.status) == UNIT_SKIPPED) {
        puts("skipped, no mount namespace can be had here: cgroup_limits");
        return;
    }
    CHECK_TEXT(limited.text, "");
    CHECK(WIFEXITED(limited.status) && WEXITSTATUS(limited.status) == 0);
}

/* ---- a setuid program must ignore the environment, which its caller controls ---- */

static char setuid_copy[64];

static void exec_setuid_copy(void *unused) {
    (void)unused;
    char *environment[] = {"HAKMEM_TCACHE_KB=128",     "HAKMEM_NONSENSE=1",   "HAKMEM_CONFIRM=1",
                           "HAKMEM_PROOF=/dev/stdout", "HAKMEM_PROFILE=lean", NULL};
    if (setgid(65534) == 0 && setuid(65534) == 0)
        execle(setuid_copy, self, "print", (char *)NULL, environment);
    _exit(127);
}

static void setuid_programs(void) {
    if (geteuid() != 0 || is_emulated("setuid programs")) {
        puts("skipped, needs root to make a setuid program: setuid_programs");
        return;
    }
    snprintf(setuid_copy, sizeof setuid_copy, "/tmp/test_config_sources.%d", (int)getpid());
    int from = open(self, O_RDONLY), to = open(setuid_copy, O_WRONLY | O_CREAT | O_EXCL, 0700);
    CHECK(from >= 0 && to >= 0);
    char buffer[65536];
    ssize_t n;
    while ((n = read(from, buffer, sizeof buffer)) > 0)
        CHECK(write(to, buffer, (size_t)n) == n);
    CHECK(n == 0 && fchmod(to, 04755) == 0 && close(to) == 0 && close(from) == 0);
    expected_t all = defaults();
    print_expected(buffer, sizeof buffer, &all);
    child_run(&child, exec_setuid_copy, NULL);
    unlink(setuid_copy);
    CHECK_TEXT(child.text, buffer);
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

int main(int argc, char **argv) {
    if (argc == 2) { /* the process is one of the children */
        if (strcmp(argv[1], "print") == 0)
            print_values();
        else if (strcmp(argv[1], "overwrite") == 0)
            overwrite_environment();
        else if (strcmp(argv[1], "early") == 0)
            early();
        else
            control();
        fflush(stdout);
        _exit(0); /* without exit handlers, which some options use to print */
    }
    confirmation();
    texts_are_kept();
    set_before_the_start();
    limits_and_targets();
    if (!HK_HOSTILE) /* there the target is 0 by default */
        cgroup_limits();
    setuid_programs();
    return 0;
}
