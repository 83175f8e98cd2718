// A thread fills the missing pages of malloc's blocks, by userfaultfd, and allocates as it does so: it does not wait for a page
// itself, and nobody does so with a lock that it needs.
#include "process.h"

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 65536, FILLED = 'f', FEW = 40, USES = 1 << 18 };

static int fd;
static size_t takes; // bytes that the thread which fills takes for each page, and keeps

static void *fill_pages(void *content) {
    struct uffd_msg message;
    while (read(fd, &message, sizeof message) == sizeof message) {
        char *p = malloc(takes);
        CHECK(p != NULL, "malloc");
        *p = 1;
        const uintptr_t page = message.arg.pagefault.address & ~(uintptr_t)(PAGE - 1);
        struct uffdio_copy copy = {.dst = page, .src = (uintptr_t)content, .len = PAGE};
        CHECK(ioctl(fd, UFFDIO_COPY, &copy) == 0 || errno == EEXIST, "UFFDIO_COPY: %s",
              strerror(errno));
    }
    return NULL;
}

static void start_filling(void) {
    static char content[PAGE];
    struct uffdio_api api = {.api = UFFD_API};
    pthread_t filler;
    memset(content, FILLED, sizeof content);
    fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0)
        world_skip("userfaultfd is not permitted here");
    CHECK(pthread_create(&filler, NULL, fill_pages, content) == 0, "pthread_create");
}

// What of a block lies on whole pages is missing until it is filled.
static char *missing(size_t bytes) {
    char *p = malloc(bytes + 2 * PAGE);
    CHECK(p != NULL, "malloc");
    p = (char *)(((uintptr_t)p + PAGE) & ~(uintptr_t)(PAGE - 1));
    struct uffdio_register there = {.range = {(uintptr_t)p, bytes},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(fd, UFFDIO_REGISTER, &there) != 0 || madvise(p, bytes, MADV_DONTNEED) != 0)
        world_skip("userfaultfd cannot fill pages here");
    return p;
}

static void use(const volatile char *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += USES)
        CHECK(p[i] == FILLED, "what a page was filled with");
}

static void round_of(unsigned blocks, size_t bytes, size_t filler_takes) {
    char *p[FEW];
    takes = filler_takes;
    for (unsigned i = 0; i < blocks; i++)
        p[i] = missing(bytes);
    for (unsigned i = 0; i < blocks; i++)
        use(p[i], bytes);
}

int main(void) {
    world_begin(20);
    start_filling();
    round_of(1, 16 * MIB, 4 * MIB); // whoever takes huge blocks looks at its latest one
    round_of(4, 16 * MIB, 4 * MIB);
    round_of(FEW, MIB,
             512); // whoever takes large ones looks at some, and others take slabs meanwhile
    return 0;
}
