/* Fuzzes the text that comes from outside: the environment, hak_ctl(), and the cgroup's files. Whatever the text,
 * each option has a value that its row allows afterwards, hak_ctl() answers as hakmem.h says, and it accepts the
 * values that it prints. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "config/config.h"
#include "config/table.h"
#include "fuzz.h"
#include "hakmem/hakmem.h"
#include "os/os.h"

extern char **environ;

enum { ENTRIES = 8, LONGEST = 600 };

/* A text from the input's bytes, zeros left out; its length comes first. */
static void a_text(fuzz_input_t *in, char *out, size_t room) {
    fuzz_input_t part = fuzz_part(in, fuzz_below(in, (unsigned)room - 1));
    size_t len = 0;
    for (; part.at != part.end; part.at++)
        if (*part.at != '\0')
            out[len++] = (char)*part.at;
    out[len] = '\0';
}

static unsigned an_option(fuzz_input_t *in) { return fuzz_below(in, HK_OPTION_COUNT); }

static void a_name(fuzz_input_t *in, char *out, size_t room) {
    const unsigned how = fuzz_below(in, 8);
    if (how == 0) {
        a_text(in, out, room);
        return;
    }
    snprintf(out, room, "%s", hk_options[an_option(in)].env);
    if (how == 1 && *out != '\0')
        out[fuzz_below(in, (unsigned)strlen(out))] = (char)(1 + fuzz_below(in, 255));
    if (how == 2)
        out[fuzz_below(in, (unsigned)strlen(out))] = '\0';
}

static void a_value(fuzz_input_t *in, char *out, size_t room) {
    static const char *const some[] = {
        "0",
        "1",
        "-1",
        "2",
        "18446744073709551615",
        "18446744073709551616",
        "4096",
        "0x1",
        " 1",
        "1 ",
        "1.0",
        "1e3",
        "99999999999999999999999",
        "",
        "OFF",
        "on",
        "K",
        "DONTNEED",
        "FREE",
        "balanced",
        "secure",
    };
    const unsigned how = fuzz_below(in, sizeof some / sizeof *some + 4);
    if (how < sizeof some / sizeof *some)
        snprintf(out, room, "%s", some[how]);
    else
        a_text(in, out, room);
}

/* Checks that each option has an allowed value, and that it survives being printed and parsed. By hk_config_control(),
 * which applies nothing to the other boxes: values of start-up options may differ from those the process started with. */
static void all_are_allowed(void) {
    for (unsigned i = 0; i < HK_OPTION_COUNT; i++) {
        const hk_option_row_t *row = &hk_options[i];
        char value[LONGEST], again[LONGEST];
        FUZZ_CHECK(hk_load_relaxed(&hk_origins[i]) <= HK_FROM_RUN_TIME, "%s", row->env);
        if (row->type == HK_TYPE_TEXT)
            continue;
        const uint64_t number = hk_option_number(i);
        FUZZ_CHECK(row->type != HK_TYPE_NUMBER || (number >= row->least && number <= row->most),
                   "%s is %llu", row->env, (unsigned long long)number);
        FUZZ_CHECK(hk_config_control(row->env, NULL, value, sizeof value) == 0, "%s", row->env);
        uint64_t parsed = ~number;
        FUZZ_CHECK(hk_option_parse(i, value, &parsed) && parsed == number, "%s=%s", row->env,
                   value);
        if (row->when == HK_WHEN_RUNTIME && hk_option_built(i)) {
            FUZZ_CHECK(hk_config_control(row->env, value, again, sizeof again) == 0, "%s=%s",
                       row->env, value);
            FUZZ_CHECK(strcmp(value, again) == 0, "%s: %s, %s", row->env, value, again);
        }
    }
}

/* ---- the environment: read as at the start; afterwards all options are restored ---- */

static void read_environment(fuzz_input_t *in) {
    static char text[ENTRIES][2 * LONGEST];
    static hk_config_t config;
    static _Atomic uint8_t origins[HK_OPTION_COUNT];
    char *entries[ENTRIES + 1] = {0};
    char **const before = environ;
    const unsigned n = fuzz_below(in, ENTRIES + 1);
    for (unsigned i = 0; i < n; i++) {
        a_name(in, text[i], LONGEST);
        if (fuzz_byte(in) != 0)
            strcat(text[i], "=");
        a_value(in, text[i] + strlen(text[i]), LONGEST);
        entries[i] = text[i];
    }
    memcpy(&config, &hk_config, sizeof config);
    memcpy(origins, hk_origins, sizeof origins);
    memset(hk_origins, 0, sizeof hk_origins);
    environ = entries;
    const int said = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    FUZZ_CHECK(said >= 0 && dup2(nowhere, STDERR_FILENO) >= 0, "error %d", errno);
    hk_config_load();
    FUZZ_CHECK(dup2(said, STDERR_FILENO) >= 0, "error %d", errno);
    close(said);
    close(nowhere);
    environ = before;
    all_are_allowed();
    hk_store_relaxed(&hk_on_fault, 0u);
    memcpy(&hk_config, &config, sizeof config);
    memcpy(hk_origins, origins, sizeof origins);
}

/* ---- hak_ctl ---- */

static void control(fuzz_input_t *in) {
    char name[LONGEST], value[LONGEST], out[LONGEST], before[LONGEST] = "", after[LONGEST] = "";
    a_name(in, name, sizeof name);
    a_value(in, value, sizeof value);
    const unsigned how = fuzz_byte(in);
    const size_t room = how & 4 ? fuzz_below(in, 12) : sizeof out;
    const bool known = hak_ctl(name, NULL, before, sizeof before) == 0;
    memset(out, '#', sizeof out);
    errno = ECHILD;
    const int is =
        hak_ctl(how & 8 ? NULL : name, how & 1 ? value : NULL, how & 2 ? out : NULL, room);
    FUZZ_CHECK(errno == ECHILD, "hak_ctl changed errno to %d", errno);
    FUZZ_CHECK(is == 0 || is == ENOENT || is == EPERM || is == EINVAL || is == ERANGE, "%d", is);
    FUZZ_CHECK(known || is == ENOENT || is == EINVAL, "%s: %d", name, is);
    for (size_t i = room; i < sizeof out; i++)
        FUZZ_CHECK(out[i] == '#', "%s: written beyond %zu bytes", name, room);
    if (!known)
        return;
    FUZZ_CHECK(hak_ctl(name, NULL, after, sizeof after) == 0, "%s is gone", name);
    FUZZ_CHECK((is == 0 && (how & 1)) || strcmp(before, after) == 0, "%s: %s, %s after error %d",
               name, before, after, is);
    if (is == 0 && (how & 2))
        FUZZ_CHECK(strcmp(out, before) == 0, "%s: said %s, was %s", name, out, before);
    all_are_allowed();
}

/* ---- the cgroup's files ---- */

static void write_file(const char *path, fuzz_input_t *in) {
    static const char *const some[] = {"max\n", "0::/a/b\n", "1:x:/\n0::/a\n", "1048576\n",
                                       "0::/../x\n"};
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_CHECK(fd >= 0, "%s: error %d", path, errno);
    const unsigned how = fuzz_below(in, sizeof some / sizeof *some + 3);
    fuzz_input_t part = fuzz_part(in, fuzz_below(in, 2500));
    if (how < sizeof some / sizeof *some)
        part = (fuzz_input_t){(const uint8_t *)some[how],
                              (const uint8_t *)some[how] + strlen(some[how])};
    ssize_t written = write(fd, part.at, (size_t)(part.end - part.at));
    FUZZ_CHECK(written == part.end - part.at, "%s: error %d", path, errno);
    close(fd);
}

/* A stand-in for the system's tree: the mount, the groups a and a/b in it, and those of the older kind. */
static char root[64];
static const char *const folders[] = {"", "a", "a/b", "memory"};
static const char *const names[] = {"memory.max",     "memory.high",
                                    "a/memory.max",   "a/memory.high",
                                    "a/b/memory.max", "memory/memory.limit_in_bytes",
                                    "membership"};
enum { FOLDERS = sizeof folders / sizeof *folders, NAMES = sizeof names / sizeof *names };

static const char *in_root(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static void remove_root(void) {
    for (unsigned i = 0; i < NAMES; i++)
        unlink(in_root(names[i]));
    for (unsigned i = FOLDERS; i-- > 0;)
        rmdir(in_root(folders[i]));
}

static void make_root(void) {
    snprintf(root, sizeof root, "/tmp/hakmem-fuzz-XXXXXX");
    FUZZ_CHECK(mkdtemp(root) != NULL, "error %d", errno);
    for (unsigned i = 1; i < FOLDERS; i++)
        FUZZ_CHECK(mkdir(in_root(folders[i]), 0700) == 0, "error %d", errno);
    atexit(remove_root);
}

static void read_limits(fuzz_input_t *in) {
    if (*root == '\0')
        make_root();
    for (unsigned i = 0; i < NAMES - 1; i++) {
        if (fuzz_byte(in) % 2 != 0)
            write_file(in_root(names[i]), in);
        else
            unlink(in_root(names[i]));
    }
    char path[128];
    snprintf(path, sizeof path, "%s", in_root("membership"));
    write_file(path, in);
    errno = ECHILD;
    int unread;
    const uint64_t limit = hk_os_memory_limit(path, root, &unread);
    FUZZ_CHECK(errno == ECHILD, "errno is %d", errno);
    const uint64_t target = hk_config_target_mb(limit);
    FUZZ_CHECK(target >= 1 && target <= 64, "%llu", (unsigned long long)target);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input_t in = {data, data + size};
    while (!fuzz_is_used_up(&in)) {
        const unsigned what = fuzz_below(&in, 16);
        if (what < 8)
            control(&in);
        else if (what < 15)
            read_environment(&in);
        else
            read_limits(&in);
    }
    return 0;
}
