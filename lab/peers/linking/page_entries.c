/* valloc and pvalloc for an allocator that comes without them, on top of its own HK_MEMALIGN. */
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

void *HK_MEMALIGN(size_t alignment, size_t size);
void *valloc(size_t size);
void *pvalloc(size_t size);

void *valloc(size_t size) { return HK_MEMALIGN((size_t)sysconf(_SC_PAGESIZE), size); }

void *pvalloc(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (size > SIZE_MAX - page)
        return NULL;
    return HK_MEMALIGN(page, (size + page - 1) / page * page);
}
