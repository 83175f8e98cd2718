/* The system that elsewhere.c stands for, where it is preloaded: what it says, and what it refuses. */
#include <errno.h>
#include <sys/mman.h>

#include "check.h"
#include "hakmem/hakmem.h"
#include "os/os.h"

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
    /* half of a page is all of it */
    p[page - 1] = 1;
    CHECK(madvise(p, page / 2, MADV_DONTNEED) == 0 && p[page - 1] == 0);
    CHECK(hk_os_unmap(p, 4 * page));
    char *block = hak_aligned_alloc(page, 3 * page);
    CHECK(block != NULL && hk_is_aligned((uintptr_t)block, page));
    hak_free(block);
    return 0;
}
