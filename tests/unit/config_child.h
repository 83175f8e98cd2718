/* Runs the test as a child with a given environment, and compares the option values and warnings
 * that the child prints with the expected ones. */
#pragma once

#include <errno.h>

#include "check.h"
#include "config/config.h"
#include "config/table.h"
#include "os/os.h"

static const char *const origins[] = {"default", "cgroup", "profile", "environment", "run time"};

/* In the child: prints one "NAME=value (origin)" per line; a word option is shown as its index. */
static inline void print_values(void) {
#define NUMBER(field, env)                                                                         \
    dprintf(STDOUT_FILENO, "%s=%" PRIu64 " (%s)\n", env, hk_option(field),                         \
            origins[hk_option_origin(field)]);
#define HK_GROUP(id, title)
#define HK_UINT(field, env, value, least, most, unit, level, when, doc) NUMBER(field, env)
#define HK_WORD(field, env, value, words, level, when, doc) NUMBER(field, env)
#define HK_TEXT(field, env, level, when, doc)                                                      \
    dprintf(STDOUT_FILENO, "%s=%s (%s)\n", env,                                                    \
            hk_option(field) != NULL ? hk_option(field) : "(none)",                                \
            origins[hk_option_origin(field)]);
#include "config/options.def"
}

/* ---- expected values ---- */

typedef struct {
    char value[HK_OPTION_COUNT][256];
    hk_origin_t origin[HK_OPTION_COUNT];
} expected_t;

static inline void expect(expected_t *all, unsigned option, uint64_t value, hk_origin_t origin) {
    snprintf(all->value[option], sizeof all->value[option], "%" PRIu64, value);
    all->origin[option] = origin;
}

static inline expected_t defaults(void) {
    static expected_t all;
#define DEFAULT(field, value) expect(&all, HK_OPTION_##field, (uint64_t)(value), HK_FROM_DEFAULT);
#define HK_GROUP(id, title)
#define HK_UINT(field, env, value, least, most, unit, level, when, doc) DEFAULT(field, value)
#define HK_WORD(field, env, value, words, level, when, doc) DEFAULT(field, value)
#define HK_TEXT(field, env, level, when, doc) strcpy(all.value[HK_OPTION_##field], "(none)");
#include "config/options.def"
    return all;
}

/* Expects the target to follow from the limit of the machine's cgroup, if there is one, purging is on
 * and the target is not set. */
static inline void expect_the_limit(expected_t *all) {
    bool purging = strcmp(all->value[HK_OPTION_lean], "0") != 0 &&
                   strcmp(all->value[HK_OPTION_lean_decommit], "0") != 0 &&
                   all->origin[HK_OPTION_lean_decommit] != HK_FROM_DEFAULT;
    int unread;
    uint64_t limit = hk_os_memory_limit(HK_OS_MEMBERSHIP, HK_OS_CGROUPS, &unread);
    if (purging && limit != 0 && all->origin[HK_OPTION_lean_target_mb] == HK_FROM_DEFAULT)
        expect(all, HK_OPTION_lean_target_mb, hk_config_target_mb(limit), HK_FROM_CGROUP);
}

static inline void print_expected(char *out, size_t room, expected_t *all) {
    size_t len = 0;
    expect_the_limit(all);
    for (unsigned i = 0; i < HK_OPTION_COUNT; i++)
        len += (size_t)snprintf(out + len, room - len, "%s=%s (%s)\n", hk_options[i].env,
                                all->value[i], origins[all->origin[i]]);
    CHECK(len < room);
}

/* ---- children ---- */

static char self[] = "/proc/self/exe";
static child_t child;

static inline void exec_with(void *environment) {
    execle(self, self, "print", (char *)NULL, (char **)environment);
    _exit(127);
}

/* Removes all lines that contain `part` from the child's output. */
static inline void drop_lines(const char *part) {
    char *to = child.text;
    for (char *line = child.text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        len += line[len] == '\n';
        if (memmem(line, len, part, strlen(part)) == NULL) {
            memmove(to, line, len);
            to += len;
        }
        line += len;
    }
    *to = '\0';
}

static inline void run_with(char *const *environment) {
    child_run(&child, exec_with, (void *)(uintptr_t)environment);
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    if (HK_HOSTILE) /* its magazines are too small for a profile's prewarming */
        drop_lines(": a magazine holds no more; ");
    drop_lines(": no libgcc_s.so.1, or "); /* the C library may come without it */
    drop_lines(": Not a directory; nothing is recorded");
    if (hk_os_page_size() == HK_SLICE)
        drop_lines(": the OS pages of this system are larger than its chunks; ");
}

/* Fails unless a child with this environment prints `warning`, then these values; notes and
 * statistics are ignored. */
static inline void check_environment(char *const *environment, const char *warning,
                                     expected_t *all) {
    char text[8192];
    size_t len = (size_t)snprintf(text, sizeof text, "%s", warning);
    print_expected(text + len, sizeof text - len, all);
    run_with(environment);
    drop_lines("hakmem: note: ");
    drop_lines("[SS_OS_STATS]"); /* HAKMEM_SS_OS_STATS prints it */
    CHECK_TEXT(child.text, text);
}

static inline void check_says(char *const *environment, const char *line) {
    run_with(environment);
    if (strstr(child.text, line) == NULL)
        check_text(__FILE__, __LINE__, child.text, line);
}
