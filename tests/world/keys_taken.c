// Where the program has taken all keys for thread-specific data before it allocates, none of them is overwritten.
#include "check.h"

#include <limits.h>
#include <pthread.h>

static pthread_key_t keys[PTHREAD_KEYS_MAX];
static int own;

static void destroy(void *value) { CHECK(value == &own, "a destructor got %p", value); }

static void *allocates(void *unused) {
    free(malloc(10));
    return unused;
}

int main(void) {
    unsigned n = 0;
    while (n < PTHREAD_KEYS_MAX && pthread_key_create(&keys[n], destroy) == 0)
        n++;
    CHECK(pthread_setspecific(keys[0], &own) == 0, "pthread_setspecific");
    world_begin(60);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocates, NULL) == 0, "pthread_create");
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    CHECK(pthread_getspecific(keys[0]) == &own, "the program's value is %p",
          pthread_getspecific(keys[0]));
}
