// A program linked to libhakmem.a: its malloc, and the C library's inside it, are hakmem's, and
// both families of names work on each other's blocks.
#include <hakmem/hakmem.h>

#include "pattern.h"

#include <malloc.h>
#include <pthread.h>

static void *run(void *unused) {
    (void)unused;
    for (size_t n = 1; n < 2000000; n = n * 2 + 1) {
        unsigned char *ours = hak_malloc(n);
        CHECK(ours != NULL && hak_usable_size(ours) >= n, "hak_malloc(%zu)", n);
        CHECK(malloc_usable_size(ours) == hak_usable_size(ours), "usable size of %zu", n);
        pattern_fill(ours, n, n);
        ours = realloc(ours, n * 2);
        CHECK_PATTERN(ours, n, n);
        ours = hak_realloc(ours, n / 2 + 1);
        CHECK_PATTERN(ours, n / 2 + 1, n);
        free(ours);
        hak_free(malloc(n));
        unsigned char *zeroed = hak_calloc(n, 1);
        CHECK(zeroed[0] == 0 && zeroed[n - 1] == 0, "hak_calloc(%zu)", n);
        free(zeroed);
        void *aligned = hak_aligned_alloc(4096, n);
        CHECK((uintptr_t)aligned % 4096 == 0, "hak_aligned_alloc: %p", aligned);
        free(aligned);
    }
    return NULL;
}

int main(void) {
    watchdog(60);
    CHECK(hak_is_serving() == 1, "malloc of this program is not hakmem's");
    CHECK(hak_version()[0] >= '0' && hak_version()[0] <= '9', "version %s", hak_version());
    char *copy = strdup("from inside the C library");
    CHECK(hak_usable_size(copy) >= 26, "strdup's block");
    hak_free(copy);
    pthread_t ids[4];
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_create(&ids[i], NULL, run, NULL) == 0, "pthread_create");
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_join(ids[i], NULL) == 0, "pthread_join");
    return 0;
}
