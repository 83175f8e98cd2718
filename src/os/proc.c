/* What the system says of the process in files: its groups' limits on memory, and how much it has. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/calls.h"
#include "base/report.h"
#include "os/os.h"

enum { LONGEST_PATH = 2048 };

/* The first `room - 1` bytes of a file; "" where it cannot be read. */
static bool read_text(const char *path, char *text, size_t room) {
    int fd = HK_CALL(other, open(path, O_RDONLY | O_CLOEXEC));
    size_t len = 0;
    for (ssize_t n = 1; fd >= 0 && n != 0;) {
        n = HK_CALL(other, read(fd, text + len, room - 1 - len));
        if (n < 0 && errno != EINTR)
            break;
        len += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        HK_CALL(other, close(fd));
    text[len] = '\0';
    return fd >= 0;
}

/* The number in the file `name` of the group's folder path[0..len); UINT64_MAX for "max", no number
 * or no file. */
static uint64_t read_limit(char *path, size_t len, const char *name) {
    char text[32];
    const char *s = text;
    uint64_t bytes;
    strcpy(path + len, name);
    read_text(path, text, sizeof text);
    path[len] = '\0';
    return hk_parse(&s, &bytes) ? bytes : UINT64_MAX;
}

/* The group of the line "0::/a/b" in place; "" where there is none, or where it lies outside what
 * this process can see. */
static const char *group_in(char *membership) {
    char *line = strncmp(membership, "0::", 3) == 0 ? membership : strstr(membership, "\n0::");
    if (line == NULL)
        return "";
    char *group = strchr(line, '/');
    if (group == NULL)
        return "";
    group[strcspn(group, "\n")] = '\0';
    return strstr(group, "/..") != NULL ? "" : group;
}

/* In a container the group's name may be the host's and its folder not there: the walk then finds
 * the container's own limit in the mount itself. */
static uint64_t lowest_limit(const char *membership, const char *mount) {
    char text[LONGEST_PATH], path[2 * LONGEST_PATH];
    if (!read_text(membership, text, sizeof text) || strlen(mount) >= LONGEST_PATH - 16)
        return 0;
    strcpy(path, mount);
    strcat(path, group_in(text));
    size_t top = strlen(mount), len = strlen(path);
    uint64_t lowest = UINT64_MAX;
    for (;;) {
        while (len > top && path[len - 1] == '/')
            len--;
        path[len] = '\0';
        lowest = hk_min(lowest, read_limit(path, len, "/memory.max"));
        lowest = hk_min(lowest, read_limit(path, len, "/memory.high"));
        if (len == top)
            return lowest == UINT64_MAX ? 0 : lowest;
        while (path[len - 1] != '/')
            len--;
    }
}

uint64_t hk_os_memory_limit(const char *membership, const char *mount) {
    return HK_KEEP_ERRNO(lowest_limit(membership, mount));
}

size_t hk_os_status(const char *name) {
    char text[4096];
    uint64_t kb = 0;
    HK_KEEP_ERRNO(read_text("/proc/self/status", text, sizeof text));
    const char *at = strstr(text, name);
    if (at != NULL) {
        at += strlen(name);
        at += strspn(at, " \t");
        hk_parse(&at, &kb);
    }
    return kb * HK_KIB;
}
