/* Memory that another thread is giving back to the system is in no thread's reach, but counts as held until it has gone:
 * an allocation at the limit waits for it, and is not refused. And a limit that another thread ends meanwhile refuses
 * nothing. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/limit.h"
#include "backend/superslab.h"
#include "check.h"
#include "config/config.h"
#include "hakmem/hakmem.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

enum { BLOCK = 40 * HK_MIB, OTHER = 30 * HK_MIB, SPARE = 4 * HK_MIB };
static _Atomic(void *) block;
static atomic_bool begun;

/* To give the block back takes some milliseconds on an idle machine; here it takes long. */
__attribute__((visibility("default"))) int munmap(void *p, size_t bytes) {
    int (*next)(void *, size_t);
    *(void **)&next = dlsym(RTLD_NEXT, "munmap");
    if (p != NULL && p == hk_load_seq(&block)) {
        hk_store_seq(&begun, true);
        usleep(50000);
    }
    return next(p, bytes);
}

static void *free_it(void *p) {
    hak_free(p);
    return NULL;
}

static void *set_and_end(void *done) {
    while (!hk_load_relaxed((atomic_bool *)done)) {
        hk_limit_set(SIZE_MAX / 2);
        hk_limit_set(0);
    }
    return NULL;
}

/* Neither a far limit nor none refuses anything; nor may a mixture of both do so. */
static void ended_meanwhile(void) {
    const unsigned rounds = getenv("HK_EMULATOR") != NULL ? 100000 : 4000000;
    atomic_bool done = false;
    pthread_t other;
    CHECK(pthread_create(&other, NULL, set_and_end, &done) == 0);
    for (unsigned i = 0; i < rounds; i++) {
        CHECK(hk_held_take(1, 0));
        hk_held_drop(1);
        CHECK(!hk_limit_is_near());
    }
    hk_store_relaxed(&done, true);
    CHECK(pthread_join(other, NULL) == 0);
}

int main(void) {
    pthread_t other;
    ended_meanwhile();
    hk_store_relaxed(&hk_config.region_cache_mb, 0u);
    hak_free(hak_malloc(1));
    void *p = hak_malloc(BLOCK);
    CHECK(p != NULL);
    hk_limit_set(hk_held() + SPARE);
    hk_store_seq(&block, p);
    CHECK(pthread_create(&other, NULL, free_it, p) == 0);
    while (!hk_load_seq(&begun))
        usleep(100);
    void *q = hak_malloc(OTHER);
    CHECK(q != NULL);
    CHECK(pthread_join(other, NULL) == 0);
    hak_free(q);
    return 0;
}

#else

int main(void) { return unit_skip("a sanitizer intercepts munmap"); }

#endif
