#include "stats/process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/calls.h"

/* The number in the line "VmHWM:    123 kB", in bytes. */
static size_t read_peak(void) {
    static const char name[] = "\nVmHWM:";
    char text[4096];
    size_t len = 0, kb = 0;
    int fd = HK_CALL(other, open("/proc/self/status", O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return 0;
    for (ssize_t n = 1; n != 0 && len < sizeof text - 1;) {
        n = HK_CALL(other, read(fd, text + len, sizeof text - 1 - len));
        if (n < 0 && errno != EINTR)
            break;
        len += n > 0 ? (size_t)n : 0;
    }
    HK_CALL(other, close(fd));
    text[len] = '\0';
    const char *at = strstr(text, name);
    if (at == NULL)
        return 0;
    for (at += strlen(name); *at == ' ' || *at == '\t';)
        at++;
    for (; *at >= '0' && *at <= '9'; at++)
        kb = kb * 10 + (size_t)(*at - '0');
    return kb * HK_KIB;
}

size_t hk_process_peak_resident(void) {
    int saved = errno;
    size_t bytes = read_peak();
    errno = saved;
    return bytes;
}
