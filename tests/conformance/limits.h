// How much a process can use below a limit, compared with the same process on the C library.
#ifndef CONFORMANCE_LIMITS_H
#define CONFORMANCE_LIMITS_H

#include "promise.h"

// Bytes that can be had in blocks of this kind, until malloc refuses or there are as many as
// wanted; they are never given back.
static inline size_t usable_in(const char *kind, size_t wanted) {
    size_t total = 0;
    uint64_t seed = 8;
    while (total < wanted) {
        size_t n = strcmp(kind, "50000-byte") == 0 ? 50000
                   : strcmp(kind, "3 MB") == 0     ? 3000000
                                                   : 64 + next(&seed) % 961;
        char *block = malloc(n);
        if (block == NULL) {
            PROMISE(errno == ENOMEM, "NULL, but errno is %s", strerrorname_np(errno));
            return total;
        }
        *block = 1;
        total += n;
    }
    return total;
}

// Below the limit, described by `where`, at least 90 % of what the C library makes of it, in each
// kind of block. Where the system puts what a process begins with is chance, and with it whether one more
// large piece has room: the most of several processes counts.
static inline void keeps_usable(again_t how, const char *where) {
    static const char *const kinds[] = {"small", "50000-byte", "3 MB"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        how.stage = kinds[i];
        how.bare = true;
        long libc = again(how);
        how.bare = false;
        long ours = -1;
        for (int tries = 0; tries < 5 && ours / 9 < libc / 10; tries++) {
            const long now = again(how);
            PROMISE(now >= 0, "%s: the process does not run", where);
            ours = now > ours ? now : ours;
        }
        NEED(libc > 0, "the same on the C library");
        PROMISE(ours / 9 >= libc / 10, "%s: %ld KiB in %s blocks, C library %ld KiB", where,
                ours / 1024, kinds[i], libc / 1024);
    }
}

#endif
