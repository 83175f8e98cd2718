/* What the system says of the process in files: its groups' limits on memory, and how much it has. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/calls.h"
#include "base/report.h"
#include "os/os.h"

enum { LONGEST_PATH = 2048 };

/* A newline and the first `room - 2` bytes of a file. False: it cannot be opened. */
static bool read_text(const char *path, char *text, size_t room) {
    const int fd = HK_CALL(other, open(path, O_RDONLY | O_CLOEXEC));
    size_t len = 1;
    ssize_t n = 0;
    text[0] = '\n';
    while (fd >= 0 && ((n = HK_CALL(other, read(fd, text + len, room - 1 - len))) > 0 ||
                       (n < 0 && errno == EINTR)))
        len += n > 0 ? (size_t)n : 0;
    if (fd >= 0)
        HK_CALL(other, close(fd));
    text[len] = '\0';
    return fd >= 0;
}

/* The number in the file `name` of the group's folder path[0..len); UINT64_MAX for "max", no number
 * or no file. */
static uint64_t read_limit(char *path, size_t len, const char *name) {
    char text[32];
    const char *s = text + 1;
    uint64_t bytes;
    memcpy(path + len, name, strlen(name) + 1);
    read_text(path, text, sizeof text);
    return hk_parse(&s, &bytes) ? bytes : UINT64_MAX;
}

/* The group of the line "0::/a/b" in place; "" where there is none, or where it lies outside what
 * this process can see. */
static const char *group_in(char *membership) {
    char *line = strstr(membership, "\n0::/");
    if (line == NULL)
        return "";
    char *group = line + strlen("\n0::");
    group[strcspn(group, "\n")] = '\0';
    return strstr(group, "/..") != NULL ? "" : group;
}

/* In a container the group's name may be the host's and its folder not there: the walk then finds
 * the container's own limit in the mount itself. */
static uint64_t lowest_limit(const char *membership, const char *mount) {
    char text[LONGEST_PATH], path[2 * LONGEST_PATH];
    const size_t top = strlen(mount);
    if (!read_text(membership, text, sizeof text) || top >= LONGEST_PATH - 16)
        return 0;
    const char *group = group_in(text);
    size_t len = top + strlen(group);
    uint64_t lowest = UINT64_MAX;
    memcpy(path, mount, top);
    memcpy(path + top, group, len - top);
    for (;;) {
        while (len > top && path[len - 1] == '/')
            len--;
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

/* Bit by bit: the file names all of the process's groups, which may be thousands. */
static uint64_t status(const char *name) {
    enum { LONGEST_LINE = 64 }; /* of those with a number */
    char text[1024] = "\n";
    size_t len = 1;
    ssize_t n;
    uint64_t number = 0;
    const int fd = HK_CALL(other, open("/proc/self/status", O_RDONLY | O_CLOEXEC));
    while (fd >= 0 && ((n = HK_CALL(other, read(fd, text + len, sizeof text - 1 - len))) > 0 ||
                       (n < 0 && errno == EINTR))) {
        text[len += n > 0 ? (size_t)n : 0] = '\0';
        const char *at = strstr(text, name);
        if (at != NULL && strchr(at + 1, '\n') != NULL) {
            at += strlen(name);
            at += strspn(at, " \t");
            hk_parse(&at, &number);
            break;
        }
        const size_t kept = hk_min(len, LONGEST_LINE);
        memmove(text, text + len - kept, kept);
        len = kept;
    }
    if (fd >= 0)
        HK_CALL(other, close(fd));
    return number;
}

size_t hk_os_status(const char *name) { return HK_KEEP_ERRNO(status(name)) * HK_KIB; }
