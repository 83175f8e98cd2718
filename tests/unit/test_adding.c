/* Several threads find no free slices at once, while mmap is slow. Fails if each of them adds a
 * superslab, instead of waiting for the first one's. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/superslab.h"
#include "check.h"
#include "hakmem/hakmem.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* these intercept mmap */

enum { THREADS = 8, SLOW_US = 20000 };
static atomic_bool is_slow;

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    if (hk_load_seq(&is_slow) && bytes >= HK_UNIT)
        usleep(SLOW_US);
    void *(*next)(void *, size_t, int, int, int, off_t);
    *(void **)&next = dlsym(RTLD_NEXT, "mmap");
    return next(at, bytes, protection, flags, fd, offset);
}

static pthread_barrier_t together;
static void *take_one(void *bytes) {
    hak_free(hak_malloc(64));
    pthread_barrier_wait(&together);
    void *p = hak_malloc((uintptr_t)bytes);
    pthread_barrier_wait(&together);
    return p;
}

int main(void) {
    pthread_t threads[THREADS];
    const size_t before = hk_pool_mapped();
    CHECK(pthread_barrier_init(&together, NULL, THREADS + 1) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, take_one, (void *)(uintptr_t)(3 * HK_UNIT / 16)) ==
              0);
    while (hk_pool_mapped() == before)
        usleep(1000);
    const size_t begun = hk_pool_mapped();
    hk_store_seq(&is_slow, true);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    for (unsigned i = 0; i < THREADS; i++) {
        void *p;
        CHECK(pthread_join(threads[i], &p) == 0 && p != NULL);
    }
    dprintf(STDOUT_FILENO, "%zu bytes mapped, and %zu more\n", begun, hk_pool_mapped() - begun);
    CHECK(hk_pool_mapped() - begun <= 2 * HK_UNIT);
    return 0;
}

#else

int main(void) { return unit_skip("a sanitizer intercepts mmap"); }

#endif
