#include "backend/meta.h"

#include "backend/limit.h"
#include "backend/mappings.h"
#include "backend/region.h"
#include "base/lock.h"
#include "os/os.h"

/* Address space is taken in chunks; their pages cost nothing until they are touched. */
#define CHUNK (512 * HK_KIB)

static size_t chunk_for(size_t bytes) {
    bytes = hk_align_up(bytes + HK_CACHE_LINE, hk_os_page_size());
    /* more where addresses cost nothing */
    return hk_region_is_bounded() ? bytes : hk_max(bytes, CHUNK);
}

/* The header of each chunk. */
typedef struct chunk {
    _Alignas(HK_CACHE_LINE) struct chunk *before;
    size_t bytes;
} chunk_t;
_Static_assert(sizeof(chunk_t) == HK_CACHE_LINE, "what chunk_for() adds");

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_META);
static char *next;                /* lock: meta */
static size_t left;               /* lock: meta; bytes from `next` to the end of the chunk */
static _Atomic(chunk_t *) newest; /* written under the lock; any thread reads */
static bool fenced;               /* lock: meta */

/* The rest ends with the newest chunk, and its first line is still zero: a write there went beyond
 * the end of the last descriptor. */
HK_WALKER static void is_valid_locked(void) {
    hk_assert(hk_lock_is_mine(&lock));
    hk_assert(hk_is_aligned((uintptr_t)next, HK_CACHE_LINE) && hk_is_aligned(left, HK_CACHE_LINE));
    const chunk_t *chunk = hk_load_relaxed(&newest);
    if (chunk == NULL) {
        hk_assert(left == 0 && next == NULL);
        return;
    }
    hk_assert(hk_is_aligned(chunk->bytes, hk_os_page_size()));
    hk_assert(next + left == (const char *)chunk + chunk->bytes);
    hk_assert(next >= (const char *)(chunk + 1));
    for (unsigned i = 0; left != 0 && i < HK_CACHE_LINE / sizeof(uint64_t); i++)
        hk_assert(((const uint64_t *)(const void *)next)[i] == 0);
}

static chunk_t *map_fenced(size_t bytes) {
    const size_t page = hk_os_page_size();
    char *fence = hk_os_fence(bytes + 2 * page, page);
    if (fence == NULL || hk_os_protect(fence + page, bytes, HK_READ_WRITE))
        return fence != NULL ? (chunk_t *)(void *)(fence + page) : NULL;
    hk_os_unmap(fence, bytes + 2 * page);
    return NULL;
}

/* Does without fences while mappings are short. */
static chunk_t *map_chunk_locked(size_t bytes) {
    chunk_t *chunk = fenced && hk_mappings_may_be_taken() ? map_fenced(bytes) : NULL;
    if (chunk == NULL)
        chunk = hk_os_map(bytes, hk_os_page_size());
    if (chunk == NULL && hk_mappings_let_go())
        chunk = hk_os_map(bytes, hk_os_page_size());
    return chunk;
}

/* The rest of the current chunk, which has no fences, stays unused. */
void hk_meta_fence(void) {
    hk_lock(&lock);
    fenced = true;
    next += left;
    left = 0;
    hk_unlock(&lock);
}

void *hk_meta_alloc(size_t bytes) {
    hk_assert(bytes != 0);
    bytes = hk_align_up(bytes, HK_CACHE_LINE);
    hk_lock(&lock);
    hk_walk(is_valid_locked());
    if (bytes > left) {
        size_t chunk = chunk_for(bytes);
        chunk_t *fresh = map_chunk_locked(chunk);
        if (fresh == NULL) {
            hk_unlock(&lock);
            return NULL;
        }
        /* The rest of the old chunk is untouched address space, not worth keeping track of. */
        *fresh = (chunk_t){.before = hk_load_relaxed(&newest), .bytes = chunk};
        hk_store_release(&newest, fresh);
        next = (char *)(fresh + 1);
        left = chunk - sizeof *fresh;
        hk_held_add(chunk);
        hk_mapped_own(chunk);
    }
    void *p = next;
    next += bytes;
    left -= bytes;
    hk_walk(is_valid_locked());
    hk_unlock(&lock);
    return p;
}

static hk_stocked_t *field_of(const hk_stock_t *stock, char *descriptor) {
    return (hk_stocked_t *)(void *)(descriptor + stock->field);
}

void *hk_stock_take(hk_stock_t *stock) {
    hk_lock(&lock);
    char *one = stock->unused;
    if (one != NULL)
        stock->unused = field_of(stock, one)->unused_next;
    hk_unlock(&lock);
    if (one != NULL || (one = hk_meta_alloc(stock->bytes)) == NULL)
        return one;
    HK_PUSH(&stock->all, field_of(stock, one)->next, one);
    return one;
}

void hk_stock_put(hk_stock_t *stock, void *descriptor) {
    hk_lock(&lock);
    field_of(stock, descriptor)->unused_next = stock->unused;
    stock->unused = descriptor;
    hk_unlock(&lock);
}

void hk_meta_visit(void (*visit)(const void *start, size_t bytes, void *argument), void *argument) {
    for (chunk_t *chunk = hk_load_acquire(&newest); chunk != NULL; chunk = chunk->before)
        visit(chunk, chunk->bytes, argument);
}
