/* Reads /proc and cgroup files: lines, the cgroups' memory limits, and the process's memory. */

#include "base/calls.h"
#include "base/report.h"
#include "os/os.h"

enum { LONGEST_PATH = 2048 };

bool hk_os_lines_open(hk_os_lines_t *lines, const char *path) {
    lines->from = lines->to = 0;
    lines->fd = HK_CALL(other, open(path, O_RDONLY | O_CLOEXEC));
    lines->error = lines->fd < 0 ? errno : 0;
    return lines->fd >= 0;
}

void hk_os_lines_close(hk_os_lines_t *lines) {
    if (lines->fd >= 0)
        HK_CALL(other, close(lines->fd));
}

/* Appends what can be read; false: nothing. */
static bool read_more(hk_os_lines_t *lines) {
    const size_t room = sizeof lines->text - 1 - lines->to;
    ssize_t n;
    do
        n = HK_CALL(other, read(lines->fd, lines->text + lines->to, room));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        lines->error = errno;
    lines->to += n > 0 ? (size_t)n : 0;
    return n > 0;
}

char *hk_os_line(hk_os_lines_t *lines) {
    for (bool more = lines->fd >= 0;;) {
        char *line = lines->text + lines->from, *all = lines->text + lines->to;
        char *end = memchr(line, '\n', (size_t)(all - line));
        if (end == NULL && ((size_t)(all - line) == sizeof lines->text - 1 || !more))
            end = all;
        if (end != NULL) {
            *end = '\0';
            lines->from = (size_t)(end - lines->text) + (end != all);
            return end != line || end != all ? line : NULL;
        }
        memmove(lines->text, line, lines->to -= lines->from);
        lines->from = 0;
        more = read_more(lines);
    }
}

bool hk_os_line_has(const char *line, const char *part) {
    return memmem(line, strlen(line), part, strlen(part)) != NULL;
}

bool hk_os_mappings_open(hk_os_lines_t *lines) {
    if (hk_os_lines_open(lines, HK_OS_MAPPINGS) && read_more(lines))
        return true;
    hk_os_lines_close(lines);
    return hk_os_lines_open(lines, "/proc/thread-self/maps");
}

/* cgroup v2 has one tree for all controllers, v1 one tree and folder for each. */
typedef struct {
    const char *controller, *folder, *files[2];
} tree_t;
static const tree_t trees[] = {
    {"", "", {"/memory.max", "/memory.high"}},
    {"memory", "/memory", {"/memory.limit_in_bytes", NULL}},
};
enum { TREES = sizeof trees / sizeof *trees, LONGEST_NAME = 32 };

/* The number in file `name` of the group's folder path[0..len). UINT64_MAX for no file, no number,
 * or "max", which v1 writes as a number larger than any memory. */
static uint64_t read_limit(hk_os_lines_t *lines, char *path, size_t len, const char *name,
                           int *unread) {
    const uint64_t none = (uint64_t)1 << 62;
    uint64_t bytes;
    hk_assert(strlen(name) < LONGEST_NAME);
    memcpy(path + len, name, strlen(name) + 1);
    hk_os_lines_open(lines, path);
    const char *s = hk_os_line(lines);
    hk_os_lines_close(lines);
    if (lines->error != 0 && lines->error != ENOENT)
        *unread = lines->error;
    return s != NULL && hk_parse(&s, &bytes) && bytes < none ? bytes : UINT64_MAX;
}

/* Whether `one` is in the comma-separated list up to `end`; the empty name is only in an empty
 * list. */
static bool is_listed(const char *list, const char *end, const char *one) {
    const size_t n = strlen(one);
    for (const char *comma; list <= end; list = comma + 1) {
        comma = memchr(list, ',', (size_t)(end - list));
        comma = comma != NULL ? comma : end;
        if ((size_t)(comma - list) == n && memcmp(list, one, n) == 0)
            return true;
    }
    return false;
}

/* The group's path from the line "0::/a/b" or "4:memory:/a/b"; "" if there is no such line or the
 * group lies outside of what this process can see. */
static const char *group_in(hk_os_lines_t *lines, const char *controller) {
    for (const char *line; (line = hk_os_line(lines)) != NULL;) {
        const char *list = memchr(line, ':', strlen(line));
        const char *end = list != NULL ? memchr(list + 1, ':', strlen(list + 1)) : NULL;
        if (end != NULL && end[1] == '/' && is_listed(list + 1, end, controller))
            return hk_os_line_has(end, "/..") ? "" : end + 1;
    }
    return "";
}

/* In a container the group's path may be the host's and missing here: the walk up then ends at the
 * mount, which has the container's own limit. */
static uint64_t lowest_in(const tree_t *tree, const char *membership, const char *mount,
                          int *unread) {
    hk_os_lines_t lines;
    char path[2 * LONGEST_PATH];
    hk_os_lines_open(&lines, membership);
    const char *group = group_in(&lines, tree->controller);
    hk_os_lines_close(&lines);
    if (lines.error != 0) {
        *unread = lines.error;
        return UINT64_MAX;
    }
    const size_t root = strlen(mount), top = root + strlen(tree->folder);
    size_t len = top + strlen(group);
    if (len >= sizeof path - LONGEST_NAME)
        return UINT64_MAX;
    uint64_t lowest = UINT64_MAX;
    memcpy(path, mount, root);
    memcpy(path + root, tree->folder, top - root);
    memcpy(path + top, group, len - top);
    for (;;) {
        while (len > top && path[len - 1] == '/')
            len--;
        for (unsigned i = 0; i < 2 && tree->files[i] != NULL; i++)
            lowest = hk_min(lowest, read_limit(&lines, path, len, tree->files[i], unread));
        if (len == top)
            return lowest;
        while (path[len - 1] != '/')
            len--;
    }
}

static uint64_t lowest_limit(const char *membership, const char *mount, int *unread) {
    uint64_t lowest = UINT64_MAX;
    *unread = 0;
    for (unsigned i = 0; i < TREES; i++)
        lowest = hk_min(lowest, lowest_in(&trees[i], membership, mount, unread));
    return lowest == UINT64_MAX ? 0 : lowest;
}

uint64_t hk_os_memory_limit(const char *membership, const char *mount, int *unread) {
    return HK_KEEP_ERRNO(lowest_limit(membership, mount, unread));
}

static uint64_t number_in(const char *file, const char *name) {
    hk_os_lines_t lines;
    uint64_t number = 0;
    hk_os_lines_open(&lines, file);
    for (const char *s; number == 0 && (s = hk_os_line(&lines)) != NULL;)
        if (strncmp(s, name, strlen(name)) == 0) {
            s += strlen(name);
            while (*s == ' ' || *s == '\t')
                s++;
            hk_parse(&s, &number);
        }
    hk_os_lines_close(&lines);
    return number;
}

/* This is the main thread's file: after that thread's end it contains no memory figures. */
#define MAIN "/proc/self/status"

static uint64_t status(const char *name) {
    const uint64_t number = number_in(MAIN, name);
    return number != 0 ? number : number_in("/proc/thread-self/status", name);
}

size_t hk_os_status(const char *name) { return HK_KEEP_ERRNO(status(name)) * HK_KIB; }

unsigned hk_os_threads_left(void) {
    const int saved = errno;
    const uint64_t all = number_in(MAIN, "VmRSS:") == 0 ? number_in(MAIN, "Threads:") : 0;
    errno = saved;
    return all != 0 ? (unsigned)all - 1 : 0;
}
