/* Preloaded into emulated programs: each thread there has a processor of its own, while the system would say which of the machine's
 * few the emulator is on. A thread that ends leaves its number to the next one. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { PROCESSORS = 1024 };
static atomic_bool taken[PROCESSORS];
static pthread_key_t key;
static _Thread_local int own = -1;

static void leave(void *place) { atomic_store((atomic_bool *)place, 0); }

static __attribute__((constructor)) void start(void) { (void)pthread_key_create(&key, leave); }

/* The lowest number that no thread has; where there are more threads, the last. */
int sched_getcpu(void) {
    if (own >= 0)
        return own;
    for (own = 0; own < PROCESSORS - 1 && atomic_exchange(&taken[own], 1); own++)
        continue;
    (void)pthread_setspecific(key, &taken[own]);
    return own;
}
