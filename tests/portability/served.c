/* A program as others have it, that knows nothing of a system's but C and POSIX: threads that free each other's
 * blocks, a child, blocks of all sizes and alignments. Where hakmem does not serve its malloc, that is a failure. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int hak_is_serving(void) __attribute__((weak));

enum { THREADS = 3, SLOTS = 256, ROUNDS = 40000 };
static unsigned char *slots[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char *what) {
    fprintf(stderr, "served: failed: %s\n", what);
    _exit(1);
}

static size_t size_of(unsigned long chance) {
    const size_t most = chance % 100 == 0 ? 3000000 : chance % 10 == 0 ? 60000 : 1500;
    return 16 + (chance >> 8) % most;
}

/* The first eight bytes are the block's size, the last one says that it is whole. */
static unsigned char *fill(unsigned char *p, size_t n) {
    if (p == NULL)
        fail("there is memory");
    memcpy(p, &n, sizeof n);
    p[n - 1] = 0x5a;
    return p;
}

static void check(unsigned char *p) {
    size_t n;
    memcpy(&n, p, sizeof n);
    if (p[n - 1] != 0x5a)
        fail("a block keeps what is in it");
}

static unsigned char *another(unsigned char *old, unsigned long chance) {
    const size_t n = size_of(chance), align = (size_t)64 << chance % 8;
    void *aligned;
    switch (chance % 4) {
    case 0:
        return fill(realloc(old, n), n);
    case 1:
        free(old);
        if (posix_memalign(&aligned, align, n) != 0 || (uintptr_t)aligned % align != 0)
            fail("a block lies where it shall");
        return fill(aligned, n);
    case 2:
        free(old);
        old = calloc(1, n);
        if (old == NULL || old[0] != 0 || old[n / 2] != 0 || old[n - 1] != 0)
            fail("calloc gives zeroes");
        return fill(old, n);
    default:
        free(old);
        return fill(malloc(n), n);
    }
}

static void *work(void *seed) {
    unsigned long chance = (unsigned long)(uintptr_t)seed;
    for (unsigned i = 0; i < ROUNDS; i++) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        unsigned char **slot = &slots[(chance >> 33) % SLOTS];
        pthread_mutex_lock(&lock);
        unsigned char *mine = *slot;
        *slot = NULL;
        pthread_mutex_unlock(&lock);
        if (mine != NULL)
            check(mine);
        mine = another(mine, chance >> 20);
        pthread_mutex_lock(&lock);
        unsigned char *theirs = *slot;
        *slot = mine;
        pthread_mutex_unlock(&lock);
        free(theirs);
    }
    return seed;
}

int main(void) {
    pthread_t threads[THREADS];
    int status;
    if (hak_is_serving == NULL || !hak_is_serving())
        fail("hakmem serves malloc");
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)) != 0)
            fail("a thread starts");
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    const pid_t child = fork();
    if (child == 0) {
        work((void *)7);
        _exit(3);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 3)
        fail("a child works");
    puts("served by hakmem");
    return 0;
}
