#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/calls.h"
#include "os/os.h"

enum { LONGEST_PATH = 2048 };

/* The first `room - 1` bytes of a file; false where it cannot be read. */
static bool read_text(const char *path, char *text, size_t room) {
    int fd = HK_CALL(other, open(path, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return false;
    size_t len = 0;
    for (;;) {
        ssize_t n = HK_CALL(other, read(fd, text + len, room - 1 - len));
        if (n > 0)
            len += (size_t)n;
        else if (n == 0 || errno != EINTR)
            break;
    }
    HK_CALL(other, close(fd));
    text[len] = '\0';
    return true;
}

/* The number in the file `name` of the group's folder path[0..len); UINT64_MAX for "max", no number
 * or no file. */
static uint64_t read_limit(char *path, size_t len, const char *name) {
    char text[32];
    strcpy(path + len, name);
    bool there = read_text(path, text, sizeof text);
    path[len] = '\0';
    uint64_t bytes = 0;
    if (!there || *text < '0' || *text > '9')
        return UINT64_MAX;
    for (const char *s = text; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(bytes, (uint64_t)10, &bytes) ||
            __builtin_add_overflow(bytes, (uint64_t)(*s - '0'), &bytes))
            return UINT64_MAX;
    return bytes;
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
    int saved = errno;
    uint64_t bytes = lowest_limit(membership, mount);
    errno = saved;
    return bytes;
}
