/* The guard starts while a thread maps a superslab, and no memory is left for that superslab's shadows.
 * Taking a slab must fail then, and must succeed from the same superslab once there is memory. */
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>

#include "backend/meta.h"
#include "backend/superslab.h"
#include "check.h"
#include "purge_all.h"

static bool waits, refuses;

static void begin(void) {
    CHECK(hk_pool_add_shadows(1, false));
    refuses = true;
    while (hk_meta_alloc(HK_CACHE_LINE) != NULL)
        continue;
}

typedef void *map_t(void *hint, size_t bytes, int protection, int flags, int fd, off_t offset);

/* Replaces the mmap that hakmem calls. */
__attribute__((visibility("default"))) void *mmap(void *hint, size_t bytes, int protection,
                                                  int flags, int fd, off_t offset) {
    static map_t *next;
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "mmap");
    if (refuses)
        errno = ENOMEM;
    void *p = refuses ? MAP_FAILED : next(hint, bytes, protection, flags, fd, offset);
    if (waits && bytes == HK_UNIT && hk_is_aligned((uintptr_t)p, HK_UNIT)) {
        waits = false; /* hakmem holds no lock here */
        begin();
    }
    return p;
}

int main(void) {
    enum { SIZE = 64 };
    const unsigned cls = hk_class_of(SIZE);
    hk_slab_t *slab = NULL, *beside = hk_pool_take(HK_SLICES, 0, 1);
    CHECK(beside != NULL); /* the page map has a leaf for these addresses */
    purge_all();           /* nothing is cached, so the next superslab is mapped */
    waits = true;
    while (waits && (slab = hk_pool_take(1, cls, 1)) != NULL)
        continue;
    CHECK(!waits && slab == NULL);
    const size_t before = hk_pool_mapped();
    refuses = false;
    purge_all();
    slab = hk_pool_take(1, cls, 1);
    CHECK(slab != NULL && hk_pool_mapped() == before);
    hk_pool_give(slab);
}
