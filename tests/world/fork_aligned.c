// What is served without locks while another thread forks is aligned as it was asked for, lies in memory of its own even
// where it has no bytes, and the children find no lock taken that somebody had.
#include "process.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "hakmem/hakmem.h"

enum { FORKS = 600 };

static atomic_bool done;

static void *forks(void *unused) {
    for (unsigned i = 0; i < FORKS; i++) {
        const pid_t child = fork();
        CHECK(child >= 0, "fork: %s", strerror(errno));
        if (child == 0) {
            watchdog(20);
            char *p = malloc(3 << 20);
            *p = 1;
            _exit(0);
        }
        CHECK_CHILD_OK(child, "a child that allocates");
    }
    atomic_store(&done, true);
    return unused;
}

static void ignore(size_t bytes, void *context) { (void)bytes, (void)context; }

enum { BLOCKS = 3000 }; // more than magazines hold
static char *blocks[BLOCKS];

static void check(unsigned i, size_t align, size_t n) {
    void *p = NULL;
    CHECK(posix_memalign(&p, align, n) == 0, "%zu bytes, aligned to %zu", n, align);
    CHECK((uintptr_t)p % align == 0, "%zu bytes at %p, not aligned to %zu", n, p, align);
    if (n != 0)
        memset(p, 0x5a, 1);
    blocks[i] = p;
}

int main(void) {
    typedef int on_reached_t(hak_limit_callback_t, void *);
    on_reached_t *const on_reached = (on_reached_t *)dlsym(RTLD_DEFAULT, "hak_limit_on_reached");
    pthread_t thread;
    world_begin(100);
    CHECK(pthread_create(&thread, NULL, forks, NULL) == 0, "pthread_create");
    for (unsigned calls = 0; !atomic_load(&done); calls++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            check(i, (size_t)32 << i % 8, 1 + i % 100);
        for (unsigned i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        check(0, 65536, 0);
        free(blocks[0]);
        for (unsigned i = 0; i < 100 && calls < 200 && on_reached != NULL; i++)
            on_reached(ignore, NULL);
    }
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
}
