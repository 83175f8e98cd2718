// What one thread allocated and another freed serves blocks of any size, while the first lives on.
#include "promise.h"

enum { BLOCKS = 200000, SIZE = 524 }; // 100 MiB
static void *blocks[BLOCKS];
static pthread_barrier_t meeting;

static void *owner(void *unused) {
    for (int i = 0; i < BLOCKS; i++)
        memset(blocks[i] = malloc(SIZE), 1, SIZE);
    pthread_barrier_wait(&meeting);
    pause(); // alive, and idle: it does nothing for what others free
    return unused;
}

// Resident bytes with 100 MiB in new blocks of n bytes, after the owner's were freed.
static size_t reused_for(size_t n) {
    pthread_barrier_init(&meeting, NULL, 2);
    start(owner, NULL);
    pthread_barrier_wait(&meeting);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    for (size_t total = 0; total < 100 * MIB; total += n) {
        void *block = malloc(n);
        PROMISE(block != NULL, "malloc(%zu): %s", n, strerror(errno));
        memset(block, 2, n);
    }
    return resident();
}

int main(int argc, char **argv) {
    const char *stage = begin(argc, argv);
    if (stage != NULL)
        answer(reused_for(strtoul(stage, NULL, 10)));
    const char *const sizes[] = {"100000", "3000000"};
    for (int i = 0; i < 2; i++) {
        long got = again((again_t){.stage = sizes[i]});
        PROMISE(got > 0, "blocks of %s bytes: the process ended badly", sizes[i]);
        PROMISE((size_t)got <= 160 * MIB, "%ld MiB resident for 100 MiB in blocks of %s bytes",
                got >> 20, sizes[i]);
    }
    return 0;
}
