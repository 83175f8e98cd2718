/* Where the program has taken all keys for thread-specific data, no destructor tells of a thread's end, and
 * the thread's first allocation notes that. For this it must not wait for another thread's fork to end: it
 * may have what the fork waits for (alarm). */
#include <pthread.h>

#include "check.h"
#include "front/thread_own.h"
#include "hakmem/hakmem.h"

static void *allocate(void *unused) {
    void *p = hak_malloc(100);
    CHECK(p != NULL);
    hak_free(p);
    return unused;
}

static void *allocate_unnoticed(void *unused) {
    allocate(NULL);
    CHECK(hk_load_relaxed(&hk_tc)->thread->tc == NULL);
    return unused;
}

static void in_thread(void *run(void *)) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, run, NULL) == 0);
    CHECK(pthread_join(id, NULL) == 0);
}

int main(void) {
    pthread_key_t key;
    alarm(600);
    while (pthread_key_create(&key, NULL) == 0)
        continue;
    hk_store_seq(&hk_forking, true); /* as a fork that waits for a thread's first entry to end */
    hk_store_relaxed(&hk_fork_waits, true);
    in_thread(allocate);
    hk_store_relaxed(&hk_fork_waits, false);
    hk_store_seq(&hk_forking, false);
    in_thread(allocate_unnoticed);
    return 0;
}
