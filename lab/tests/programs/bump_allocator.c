/* A whole allocator: blocks one behind the other, none of which is ever used again. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

static _Alignas(4096) unsigned char heap[256u << 20];
static size_t used;

/* Each block is preceded by its size. */
static void *take(size_t alignment, size_t size) {
    size_t start = (used + sizeof(size_t) + alignment - 1) / alignment * alignment;
    if (start > sizeof heap || size > sizeof heap - start)
        return NULL;
    used = start + size;
    memcpy(heap + start - sizeof(size_t), &size, sizeof size);
    return heap + start;
}
size_t malloc_usable_size(void *block) {
    size_t size = 0;
    if (block)
        memcpy(&size, (unsigned char *)block - sizeof size, sizeof size);
    return size;
}
void *malloc(size_t size) { return take(16, size); }
void *calloc(size_t count, size_t size) { return take(16, count * size); }
void *realloc(void *old, size_t size) {
    void *fresh = malloc(size);
    size_t before = malloc_usable_size(old);
    if (fresh && old)
        memcpy(fresh, old, before < size ? before : size);
    return fresh;
}
void *aligned_alloc(size_t alignment, size_t size) { return take(alignment, size); }
int posix_memalign(void **out, size_t alignment, size_t size) {
    *out = take(alignment, size);
    return *out ? 0 : ENOMEM;
}
void free(void *block) { (void)block; }
