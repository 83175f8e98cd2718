/* What the system says of the process in files: line by line, its groups' limits on memory, and how much it has. */
#include <string.h>

#include "base/calls.h"
#include "base/report.h"
#include "os/os.h"

enum { LONGEST_PATH = 2048 };

bool hk_os_lines_open(hk_os_lines_t *lines, const char *path) {
    lines->from = lines->to = 0;
    lines->fd = HK_CALL(other, open(path, O_RDONLY | O_CLOEXEC));
    return lines->fd >= 0;
}

void hk_os_lines_close(hk_os_lines_t *lines) {
    if (lines->fd >= 0)
        HK_CALL(other, close(lines->fd));
}

char *hk_os_line(hk_os_lines_t *lines) {
    for (ssize_t n = lines->fd >= 0 ? 1 : 0;;) {
        char *line = lines->text + lines->from, *all = lines->text + lines->to;
        char *end = memchr(line, '\n', (size_t)(all - line));
        const size_t room = sizeof lines->text - 1 - (size_t)(all - line);
        if (end == NULL && (room == 0 || n == 0))
            end = all;
        if (end != NULL) {
            *end = '\0';
            lines->from = (size_t)(end - lines->text) + (end != all);
            return end != line || end != all ? line : NULL;
        }
        memmove(lines->text, line, lines->to -= lines->from);
        lines->from = 0;
        do
            n = HK_CALL(other, read(lines->fd, lines->text + lines->to, room));
        while (n < 0 && errno == EINTR);
        n = n > 0 ? n : 0;
        lines->to += (size_t)n;
    }
}

/* The number in the file `name` of the group's folder path[0..len); UINT64_MAX for "max", no number
 * or no file. */
static uint64_t read_limit(hk_os_lines_t *lines, char *path, size_t len, const char *name) {
    uint64_t bytes;
    memcpy(path + len, name, strlen(name) + 1);
    hk_os_lines_open(lines, path);
    const char *s = hk_os_line(lines);
    hk_os_lines_close(lines);
    return s != NULL && hk_parse(&s, &bytes) ? bytes : UINT64_MAX;
}

/* The group of the line "0::/a/b"; "" where there is none, or where it lies outside what
 * this process can see. */
static const char *group_in(hk_os_lines_t *lines) {
    const char *line = hk_os_line(lines);
    while (line != NULL && strncmp(line, "0::/", 4) != 0)
        line = hk_os_line(lines);
    return line == NULL || strstr(line, "/..") != NULL ? "" : line + strlen("0::");
}

/* In a container the group's name may be the host's and its folder not there: the walk then finds
 * the container's own limit in the mount itself. */
static uint64_t lowest_limit(const char *membership, const char *mount) {
    hk_os_lines_t lines;
    char path[2 * LONGEST_PATH];
    const size_t top = strlen(mount);
    if (!hk_os_lines_open(&lines, membership))
        return 0;
    const char *group = group_in(&lines);
    hk_os_lines_close(&lines);
    size_t len = top + strlen(group);
    if (len >= sizeof path - 16) /* with the file's name */
        return 0;
    uint64_t lowest = UINT64_MAX;
    memcpy(path, mount, top);
    memcpy(path + top, group, len - top);
    for (;;) {
        while (len > top && path[len - 1] == '/')
            len--;
        lowest = hk_min(lowest, read_limit(&lines, path, len, "/memory.max"));
        lowest = hk_min(lowest, read_limit(&lines, path, len, "/memory.high"));
        if (len == top)
            return lowest == UINT64_MAX ? 0 : lowest;
        while (path[len - 1] != '/')
            len--;
    }
}

uint64_t hk_os_memory_limit(const char *membership, const char *mount) {
    return HK_KEEP_ERRNO(lowest_limit(membership, mount));
}

static uint64_t status(const char *name) {
    hk_os_lines_t lines;
    uint64_t number = 0;
    hk_os_lines_open(&lines, "/proc/self/status");
    for (const char *s; number == 0 && (s = hk_os_line(&lines)) != NULL;)
        if (strncmp(s, name, strlen(name)) == 0) {
            s += strlen(name);
            s += strspn(s, " \t");
            hk_parse(&s, &number);
        }
    hk_os_lines_close(&lines);
    return number;
}

size_t hk_os_status(const char *name) { return HK_KEEP_ERRNO(status(name)) * HK_KIB; }
