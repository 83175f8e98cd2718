/* A preloaded library that imitates another system. HK_PAGE_BYTES: OS pages have that size, and calls that split
 * such a page are refused. HK_EMULATOR: programs run under that command, so that a program can execute itself. The
 * library interposes functions of the C library; it does not see the C library's own calls. Nothing here allocates. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

enum { REAL_PAGE = 4096 };

/* From /proc: the loader allocates before getenv() works. */
static size_t read_page_bytes(void) {
    static char text[1 << 17];
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/environ", O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n;
    while ((n = read(fd, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    close(fd);
    for (const char *at = text; at < text + len; at += strlen(at) + 1)
        if (strncmp(at, "HK_PAGE_BYTES=", 14) == 0)
            return strtoul(at + 14, NULL, 10);
    return REAL_PAGE;
}

static size_t page_bytes(void) {
    static size_t bytes; /* threads may race to set it: to the same value */
    if (bytes == 0)
        bytes = read_page_bytes();
    return bytes;
}

static size_t whole(size_t bytes) { return (bytes + page_bytes() - 1) & ~(page_bytes() - 1); }

/* Whether p is the start of an OS page; if not, sets errno to EINVAL, as the system does. */
static bool starts_page(const void *p) {
    const bool is = ((uintptr_t)p & (page_bytes() - 1)) == 0;
    if (!is)
        errno = EINVAL;
    return is;
}

static char *real_mmap(void *p, size_t n, int protection, int flags, int fd, off_t offset) {
    return (char *)syscall(SYS_mmap, p, n, protection, flags, fd, offset);
}

/* Reserves a longer range, unmaps its ends, and maps at the aligned address in between: a file's mapping cannot be
 * trimmed at its start, because the file must begin where the mapping does. */
static char *map_aligned(size_t n, int protection, int flags, int fd, off_t offset) {
    const size_t more = n + page_bytes() - REAL_PAGE;
    char *p = real_mmap(NULL, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return p;
    char *start = (char *)whole((uintptr_t)p), *end = p + more;
    if (start != p)
        syscall(SYS_munmap, p, start - p);
    if (start + n != end)
        syscall(SYS_munmap, start + n, end - (start + n));
    return real_mmap(start, n, protection, flags | MAP_FIXED, fd, offset);
}

void *mmap(void *hint, size_t n, int protection, int flags, int fd, off_t offset) {
    const bool there = (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
    if (there && !starts_page(hint))
        return MAP_FAILED;
    char *p = real_mmap((void *)whole((uintptr_t)hint), whole(n), protection, flags, fd, offset);
    if (p == MAP_FAILED || ((uintptr_t)p & (page_bytes() - 1)) == 0)
        return p;
    syscall(SYS_munmap, p, whole(n));
    return map_aligned(whole(n), protection, flags, fd, offset);
}

int munmap(void *p, size_t n) {
    return starts_page(p) ? (int)syscall(SYS_munmap, p, whole(n)) : -1;
}

int mprotect(void *p, size_t n, int protection) {
    return starts_page(p) ? (int)syscall(SYS_mprotect, p, whole(n), protection) : -1;
}

int madvise(void *p, size_t n, int advice) {
    return starts_page(p) ? (int)syscall(SYS_madvise, p, whole(n), advice) : -1;
}

void *mremap(void *p, size_t n, size_t new_n, int flags, ...) {
    va_list list;
    va_start(list, flags);
    void *to = (flags & MREMAP_FIXED) != 0 ? va_arg(list, void *) : NULL;
    va_end(list);
    if (!starts_page(p) || !starts_page(to))
        return MAP_FAILED;
    return (void *)syscall(SYS_mremap, p, whole(n), whole(new_n), flags, to);
}

/* A page is resident if any real page of it is. */
int mincore(void *p, size_t n, unsigned char *pages) {
    if (!starts_page(p))
        return -1;
    for (size_t at = 0; at < n; at += page_bytes(), pages++) {
        unsigned char parts[65536 / REAL_PAGE];
        if (syscall(SYS_mincore, (char *)p + at, page_bytes(), parts) != 0)
            return -1;
        *pages = 0;
        for (size_t i = 0; i < page_bytes() / REAL_PAGE; i++)
            *pages |= parts[i] & 1;
    }
    return 0;
}

static long real_syscall(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long said = number;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "+a"(said)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
#else
    register long said __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    register long x8 __asm__("x8") = number;
    __asm__ volatile("svc 0"
                     : "+r"(said)
                     : "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5), "r"(x8)
                     : "memory");
#endif
    if (said >= 0 || said < -4095)
        return said;
    errno = (int)-said;
    return -1;
}

/* Refuses /proc/.../pagemap, which has an entry for each page of the real size. */
long syscall(long number, ...) {
    long given[6];
    va_list list;
    va_start(list, number);
    for (unsigned i = 0; i < 6; i++)
        given[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_openat && strstr((const char *)given[1], "/pagemap") != NULL &&
        page_bytes() != REAL_PAGE) {
        errno = EACCES;
        return -1;
    }
    return real_syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

unsigned long getauxval(unsigned long type) {
    if (type == AT_PAGESZ)
        return page_bytes();
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/auxv", O_RDONLY | O_CLOEXEC);
    unsigned long pair[2] = {0, 0};
    while (read(fd, pair, sizeof pair) == sizeof pair && pair[0] != type && pair[0] != AT_NULL)
        ;
    close(fd);
    return pair[0] == type ? pair[1] : 0;
}

int getpagesize(void) { return (int)page_bytes(); }

/* ---- a program that executes itself ---- */

enum { MOST_WORDS = 32, MOST_SETTINGS = 1000 };

/* Copies `environment` to `to` and adds this library's variables: the new program runs on the same imitated system. */
static void add_ours(char **to, char *const *environment) {
    static const char *const ours[] = {"LD_PRELOAD=", "HK_PAGE_BYTES=", "HK_EMULATOR="};
    char **const most = to + MOST_SETTINGS;
    while (*environment != NULL && to < most)
        *to++ = *environment++;
    for (unsigned i = 0; i < sizeof ours / sizeof *ours; i++)
        for (char **at = environ; *at != NULL; at++)
            if (strncmp(*at, ours[i], strlen(ours[i])) == 0)
                *to++ = *at;
    *to = NULL;
}

static int execute(const char *path, char *const *words, char *const *environment) {
    static char self[4096], emulator[4096];
    char *of_emulator[MOST_WORDS], **to = of_emulator, *everything[MOST_SETTINGS + 4];
    add_ours(everything, environment);
    if (getenv("HK_EMULATOR") == NULL)
        return (int)syscall(SYS_execve, path, words, everything);
    strncpy(emulator, getenv("HK_EMULATOR"), sizeof emulator - 1);
    for (char *rest = emulator; (*to = strtok_r(rest, " ", &rest)) != NULL;)
        to++;
    if (strcmp(path, "/proc/self/exe") == 0 && readlink(path, self, sizeof self - 1) > 0)
        path = self;
    for (*to++ = (char *)(uintptr_t)path; (*to = *++words) != NULL;)
        to++;
    return (int)syscall(SYS_execve, of_emulator[0], of_emulator, everything);
}

int execle(const char *path, const char *first, ...) {
    char *words[MOST_WORDS] = {(char *)(uintptr_t)first};
    va_list list;
    va_start(list, first);
    for (unsigned n = 0; words[n] != NULL;)
        words[++n] = va_arg(list, char *);
    char *const *environment = va_arg(list, char *const *);
    va_end(list);
    return execute(path, words, environment);
}

int execl(const char *path, const char *first, ...) {
    char *words[MOST_WORDS] = {(char *)(uintptr_t)first};
    va_list list;
    va_start(list, first);
    for (unsigned n = 0; words[n] != NULL;)
        words[++n] = va_arg(list, char *);
    va_end(list);
    return execute(path, words, environ);
}
