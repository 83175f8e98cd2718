#include "procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

static void read_file(const char *path, char *buffer, size_t room) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        hb_die("cannot open %s: %s", path, strerror(errno));
    }
    size_t length = 0;
    while (length + 1 < room) {
        const ssize_t got = read(fd, buffer + length, room - length - 1);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        length += (size_t)got;
    }
    close(fd);
    buffer[length] = '\0';
}

/* The number after "\nNAME" in a text of "Name:  123 kB" lines. */
static uint64_t field(const char *text, const char *name, const char *path) {
    const char *line = strstr(text, name);
    if (line == NULL) {
        hb_die("no %s in %s", name + 1, path);
    }
    return strtoull(line + strlen(name), NULL, 10);
}

hb_rollup_t hb_rollup_now(void) {
    static const char path[] = "/proc/self/smaps_rollup";
    char text[4096];
    read_file(path, text, sizeof text);
    return (hb_rollup_t){
        .rss_kb = field(text, "\nRss:", path),
        .pss_kb = field(text, "\nPss:", path),
        .anon_kb = field(text, "\nAnonymous:", path),
        .lazyfree_kb = field(text, "\nLazyFree:", path),
        .anonhuge_kb = field(text, "\nAnonHugePages:", path),
    };
}

static uint64_t status_field(const char *name) {
    static const char path[] = "/proc/self/status";
    char text[8192];
    read_file(path, text, sizeof text);
    return field(text, name, path);
}

uint64_t hb_committed_kb(void) { return status_field("\nVmData:"); }

uint64_t hb_peak_rss_kb(void) { return status_field("\nVmHWM:"); }
