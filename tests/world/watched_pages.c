// A part of a block's pages is registered with userfaultfd, as who takes snapshots does, when the block grows: the system moves no
// such part together with others, and what it has moved by then must not be lost.
#include "process.h"

#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

enum { BYTES = 16 * MIB, MORE = 8 * MIB, PAGE = 65536, ROUNDS = 4, USER_MODE_ONLY = 1 };

static int watcher(void) {
    struct uffdio_api api = {.api = UFFD_API};
    const int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY);
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0)
        world_skip("userfaultfd is not permitted here");
    return fd;
}

static void watch(int fd, char *start, size_t bytes) {
    struct uffdio_register there = {.range = {(uintptr_t)start, bytes},
                                    .mode = UFFDIO_REGISTER_MODE_WP};
    if (ioctl(fd, UFFDIO_REGISTER, &there) != 0)
        world_skip("userfaultfd cannot watch for writes here");
}

int main(void) {
    world_begin(60);
    const int fd = watcher();
    for (int round = 0; round < ROUNDS; round++) {
        char *p = malloc(BYTES), *apart = malloc(BYTES), *at_hand = malloc(BYTES);
        CHECK(p != NULL && apart != NULL && at_hand != NULL, "malloc");
        memset(p, 'p', BYTES);
        memset(at_hand, 'h', BYTES);
        watch(fd, (char *)(((uintptr_t)p + BYTES / 2) & ~(uintptr_t)(PAGE - 1)), BYTES / 4);
        free(at_hand); // what the block may grow by
        p = realloc(p, BYTES + MORE);
        CHECK(p != NULL, "realloc");
        for (size_t i = 0; i < BYTES; i++)
            CHECK(p[i] == 'p', "byte %zu of what was in the block is lost", i);
        memset(p + BYTES, 'p', MORE);
        free(p);
        free(apart);
    }
    return 0;
}
