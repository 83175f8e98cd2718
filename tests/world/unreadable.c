// unreadable protected | inside | not_inherited: a program may see to it that pages of its own large block cannot be read, by
// itself or by a child, and ends as ever.
#include "process.h"

#include <stdint.h>
#include <sys/mman.h>

static void protect(char *page, size_t bytes) {
    CHECK(mprotect(page, bytes, PROT_NONE) == 0, "mprotect: %s", strerror(errno));
}

static char *aligned_block(size_t page) {
    void *p = NULL;
    CHECK(posix_memalign(&p, page, MIB) == 0, "posix_memalign");
    memset(p, 1, MIB);
    return p;
}

int main(int argc, char **argv) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    world_begin(10);
    CHECK(argc == 2, "usage: unreadable protected|inside|not_inherited");
    if (strcmp(argv[1], "protected") == 0) {
        protect(aligned_block(page) + MIB - page, page);
    } else if (strcmp(argv[1], "inside") == 0) { // the last page that is all the block's
        char *p = malloc(MIB + 16), *end = p + MIB + 16;
        CHECK(p != NULL, "malloc");
        memset(p, 1, MIB + 16);
        protect(end - (uintptr_t)end % page - page, page);
    } else {
        CHECK(madvise(aligned_block(page), MIB, MADV_DONTFORK) == 0, "madvise: %s",
              strerror(errno));
        fflush(NULL);
        const pid_t child = fork();
        CHECK(child >= 0, "fork: %s", strerror(errno));
        if (child == 0)
            exit(0);
        CHECK_CHILD_OK(child, "a child without a block");
    }
    exit(0);
}
