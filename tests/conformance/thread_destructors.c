// Destructors of thread-specific data may allocate, free and set their key again, in each round.
#include "promise.h"

enum { KEYS = 8 };
static pthread_key_t keys[KEYS];

// A destructor: gets the block of one round, leaves another for the next.
static void destroy(void *value) {
    size_t *block = value;
    PROMISE(intact(block + 2, 500, block[0]), "a block changed before its destructor");
    size_t key = block[0], rounds = block[1];
    free(block);
    churn(5, 16 * KIB, key + 1);
    if (rounds == 0)
        return;
    block = malloc(516);
    block[0] = key, block[1] = rounds - 1;
    fill(block + 2, 500, key);
    pthread_setspecific(keys[key], block);
}

static void *work(void *unused) {
    for (size_t key = 0; key < KEYS; key++) {
        size_t *block = malloc(516);
        block[0] = key, block[1] = 2;
        fill(block + 2, 500, key);
        pthread_setspecific(keys[key], block);
    }
    return unused;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int i = 0; i < KEYS; i++)
        NEED((errno = pthread_key_create(&keys[i], destroy)) == 0, "pthread_key_create");
    for (long i = 0; i < scaled(5000, 300); i++) {
        pthread_t threads[4];
        for (int t = 0; t < 4; t++)
            threads[t] = start(work, NULL);
        for (int t = 0; t < 4; t++)
            pthread_join(threads[t], NULL);
    }
    return 0;
}
