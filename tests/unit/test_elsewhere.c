/* Checks elsewhere.c, which imitates a system with larger OS pages when preloaded: its page size, its
 * mappings and its refusals. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "check.h"
#include "hakmem/hakmem.h"
#include "os/os.h"

/* A mapped file must begin on one of the larger pages, wherever the real system would put it next, and
 * show the file's beginning. */
static void test_files(size_t page) {
    const int fd = open("/proc/self/exe", O_RDONLY);
    for (unsigned i = 0; i < 64; i++) {
        CHECK(mmap(NULL, 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
        CHECK(syscall(SYS_mmap, NULL, 4096 * (i % 4 + 1), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0) != -1);
        const char *file = mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0);
        CHECK(file != MAP_FAILED && hk_is_aligned((uintptr_t)file, page));
        CHECK(memcmp(file, "\177ELF", 4) == 0);
    }
    close(fd);
}

int main(void) {
    const char *wanted = getenv("HK_PAGE_BYTES");
    if (wanted == NULL)
        return unit_skip("elsewhere.c is not preloaded");
    const size_t page = strtoul(wanted, NULL, 10);
    CHECK_EQ(hk_os_page_size(), page);
    char *p = hk_os_map(4 * page, page);
    CHECK(p != NULL && hk_is_aligned((uintptr_t)p, page));
    CHECK(munmap(p + page / 2, page) == -1 && errno == EINVAL);
    CHECK(madvise(p + page / 2, page, MADV_DONTNEED) == -1 && errno == EINVAL);
    /* advice about half of a page affects all of it */
    p[page - 1] = 1;
    CHECK(madvise(p, page / 2, MADV_DONTNEED) == 0 && p[page - 1] == 0);
    CHECK(hk_os_unmap(p, 4 * page));
    char *block = hak_aligned_alloc(page, 3 * page);
    CHECK(block != NULL && hk_is_aligned((uintptr_t)block, page));
    hak_free(block);
    test_files(page);
    return 0;
}
