/* The options: every row of the table, its range and its messages, read by a child as any program
 * reads them. */
#include "config/config.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "check.h"
#include "hakmem/hakmem.h"

/* The value of every option, one "NAME=value" a line; a word is shown as its index. */
static void print_values(void) {
#define NUMBER(field, env) dprintf(STDOUT_FILENO, "%s=%" PRIu64 "\n", env, hk_option(field));
#define HK_UINT(field, env, value, least, most, unit, level, when, doc) NUMBER(field, env)
#define HK_WORD(field, env, value, words, level, when, doc) NUMBER(field, env)
#define HK_TEXT(field, env, level, when, doc)                                                      \
    dprintf(STDOUT_FILENO, "%s=%s\n", env, hk_option(field) != NULL ? hk_option(field) : "(none)");
#include "config/options.def"
#undef HK_UINT
#undef HK_WORD
#undef HK_TEXT
}

/* What print_values() prints where the option `name` has the value `text`, the others their
 * default. */
static void expected_values(char *out, size_t room, const char *name, const char *text) {
    size_t len = 0;
    char number[24];
#define LINE(env, otherwise)                                                                       \
    len += (size_t)snprintf(out + len, room - len, "%s=%s\n", env,                                 \
                            strcmp(name, env) == 0 ? text : (otherwise));
#define DEFAULT(env, value)                                                                        \
    snprintf(number, sizeof number, "%" PRIu64, (uint64_t)(value));                                \
    LINE(env, number)
#define HK_UINT(field, env, value, least, most, unit, level, when, doc) DEFAULT(env, value)
#define HK_WORD(field, env, value, words, level, when, doc) DEFAULT(env, value)
#define HK_TEXT(field, env, level, when, doc) LINE(env, "(none)")
#include "config/options.def"
#undef HK_UINT
#undef HK_WORD
#undef HK_TEXT
    CHECK(len < room);
}

static char self[] = "/proc/self/exe";

static void exec_with(void *entry) {
    char *environment[] = {entry, NULL};
    execle(self, "test_config", "print", (char *)NULL, environment);
    _exit(127);
}

/* With `entry` as its whole environment a child says `warning` and has `value` for `name`. */
static void check_entry(char *entry, const char *warning, const char *name, const char *value) {
    static child_t child;
    char expected[4096];
    size_t len = (size_t)snprintf(expected, sizeof expected, "%s", warning);
    expected_values(expected + len, sizeof expected - len, name, value);
    child_run(&child, exec_with, entry);
    CHECK_TEXT(child.text, expected);
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

static void check_number(const char *name, uint64_t otherwise, uint64_t least, uint64_t most,
                         const char *unit) {
    char entry[128], number[64], usual[24], warning[512];
    snprintf(usual, sizeof usual, "%" PRIu64, otherwise);
    const uint64_t good[] = {least, most};
    for (unsigned i = 0; i < 2; i++) {
        snprintf(number, sizeof number, "%" PRIu64, good[i]);
        snprintf(entry, sizeof entry, "%s=%s", name, number);
        check_entry(entry, "", name, number);
    }
    static const char *const wrong[] = {
        "", "abc", "12x", "-1", "+1", " 100", "0x40", "1.5", "18446744073709551617"};
    char beyond[2][24];
    snprintf(beyond[0], sizeof beyond[0], "%" PRIu64, most + 1);
    snprintf(beyond[1], sizeof beyond[1], "%" PRIu64, least - 1);
    for (unsigned i = 0; i < 9 + (least > 0 ? 2u : 1u); i++) {
        const char *text = i < 9 ? wrong[i] : beyond[i - 9];
        snprintf(entry, sizeof entry, "%s=%s", name, text);
        snprintf(warning, sizeof warning,
                 "hakmem: warning: %s=%s: a whole number from %" PRIu64 " to %" PRIu64
                 " (%s) is allowed; using the default\n",
                 name, text, least, most, unit);
        check_entry(entry, warning, name, usual);
    }
}

/* Every word is understood; anything else is refused with all of them named. */
static void check_words(const char *name, uint64_t otherwise, const char *words) {
    char entry[256], number[24], usual[24], warning[512];
    snprintf(usual, sizeof usual, "%" PRIu64, otherwise);
    uint64_t index = 0;
    for (const char *word = words;; index++) {
        size_t len = strcspn(word, "|");
        snprintf(entry, sizeof entry, "%s=%.*s", name, (int)len, word);
        snprintf(number, sizeof number, "%" PRIu64, index);
        check_entry(entry, "", name, number);
        if (word[len] == '\0')
            break;
        word += len + 1;
    }
    static const char *const wrong[] = {"", "no-such-word", "|", "0|1", " 0"};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(entry, sizeof entry, "%s=%s", name, wrong[i]);
        snprintf(warning, sizeof warning,
                 "hakmem: warning: %s=%s: one of %s is allowed; using the default\n", name,
                 wrong[i], words);
        check_entry(entry, warning, name, usual);
    }
}

static void every_row(void) {
#define HK_UINT(field, env, value, least, most, unit, level, when, doc)                            \
    check_number(env, (uint64_t)(value), least, most, unit);
#define HK_WORD(field, env, value, words, level, when, doc)                                        \
    check_words(env, (uint64_t)(value), words);
#define HK_TEXT(field, env, level, when, doc)
#include "config/options.def"
#undef HK_UINT
#undef HK_WORD
#undef HK_TEXT
}

static void unknown_names(void) {
    static const char *const nearest[][2] = {
        {"HAKMEM_TCACH_KB", "HAKMEM_TCACHE_KB"},
        {"HAKMEM_REGION_CACHE", "HAKMEM_REGION_CACHE_MB"},
        {"HAKMEM_THPS", "HAKMEM_THP"},
        {"HAKMEM_PROOFS", "HAKMEM_PROOF"},
        {"HAKMEM_tcache_kb", "HAKMEM_TCACHE_KB"},
    };
    char entry[512], warning[1024];
    for (unsigned i = 0; i < sizeof nearest / sizeof nearest[0]; i++) {
        snprintf(entry, sizeof entry, "%s=64=x", nearest[i][0]);
        snprintf(warning, sizeof warning,
                 "hakmem: warning: %s: no such option; ignored (the nearest known name is %s)\n",
                 entry, nearest[i][1]);
        check_entry(entry, warning, "", "");
    }
    /* a name longer than any: cut, not overrun */
    char name[200];
    memset(name, 'X', sizeof name);
    memcpy(name, "HAKMEM_", 7);
    name[sizeof name - 1] = '\0';
    snprintf(entry, sizeof entry, "%s=1", name);
    static child_t child;
    child_run(&child, exec_with, entry);
    CHECK(strncmp(child.text, "hakmem: warning: HAKMEM_XXXX", 28) == 0);
    CHECK(strstr(child.text, "=1: no such option; ignored") != NULL);
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

static void names_of_others(void) {
    static char *const silent[] = {
        "HAKMEM_BENCH_FAST_MODE=1", "HAKMEM_TEST_ANYTHING=x", "HAKMEM=1",
        "HAKMEM_NO_EQUALS",         "HAKME_TCACHE_KB=1",      "XHAKMEM_TCACHE_KB=1"};
    for (unsigned i = 0; i < sizeof silent / sizeof silent[0]; i++)
        check_entry(silent[i], "", "", "");
}

/* ---- a setuid program's environment is its caller's and not to be trusted
 * ------------------------ */

static char setuid_copy[64];

static void exec_setuid_copy(void *unused) {
    (void)unused;
    char *environment[] = {"HAKMEM_TCACHE_KB=128", "HAKMEM_NONSENSE=1", "HAKMEM_PROOF=/dev/stdout",
                           NULL};
    if (setgid(65534) == 0 && setuid(65534) == 0)
        execle(setuid_copy, "test_config", "print", (char *)NULL, environment);
    _exit(127);
}

static void setuid_programs(void) {
    if (geteuid() != 0) {
        puts("skipped, needs root to make a setuid program: setuid_programs");
        return;
    }
    snprintf(setuid_copy, sizeof setuid_copy, "/tmp/test_config.%d", (int)getpid());
    int from = open(self, O_RDONLY), to = open(setuid_copy, O_WRONLY | O_CREAT | O_EXCL, 0700);
    CHECK(from >= 0 && to >= 0);
    char buffer[65536];
    ssize_t n;
    while ((n = read(from, buffer, sizeof buffer)) > 0)
        CHECK(write(to, buffer, (size_t)n) == n);
    CHECK(n == 0 && fchmod(to, 04755) == 0 && close(to) == 0 && close(from) == 0);
    static child_t child;
    char expected[4096];
    expected_values(expected, sizeof expected, "", "");
    child_run(&child, exec_setuid_copy, NULL);
    unlink(setuid_copy);
    CHECK_TEXT(child.text, expected);
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "print") == 0) {
        print_values();
        return 0;
    }
    every_row();
    unknown_names();
    names_of_others();
    setuid_programs();
    return 0;
}
