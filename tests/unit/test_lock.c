/* Locks: one holder at a time; hk_lock_unless() gives up when told to; many waiters must sleep instead
 * of making calls all the time. */
#include "base/lock.h"

#include <pthread.h>
#include <time.h>

#include "base/calls.h"
#include "check.h"

enum { WAITERS = 400 };

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_REGISTRY);
static unsigned count; /* lock: lock */
static atomic_bool given_up, done;
static atomic_uint refused;

static void wait_all(pthread_t *threads) {
    for (unsigned i = 0; i < WAITERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void start_all(pthread_t *threads, void *(*fn)(void *)) {
    for (unsigned i = 0; i < WAITERS; i++)
        CHECK(pthread_create(&threads[i], NULL, fn, NULL) == 0);
}

static void *add_some(void *unused) {
    for (unsigned i = 0; i < 200; i++) {
        hk_lock(&lock);
        count++;
        hk_unlock(&lock);
    }
    return unused;
}

/* No increment under the lock may be lost. */
static void one_at_a_time(void) {
    pthread_t threads[WAITERS];
    start_all(threads, add_some);
    wait_all(threads);
    CHECK_EQ(count, WAITERS * 200);
    CHECK_EQ(hk_load_relaxed(&lock.sleepers), 0);
}

static void *add_one(void *unused) {
    hk_lock(&lock);
    count++;
    hk_unlock(&lock);
    return unused;
}

static void *try_one(void *unused) {
    if (hk_lock_unless(&lock, &given_up))
        hk_unlock(&lock);
    else
        atomic_fetch_add(&refused, 1);
    return unused;
}

static void *pause_until_done(void *unused) {
    for (unsigned tries = 0; !atomic_load(&done); tries++)
        hk_lock_pause(tries);
    return unused;
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Many threads wait for 300 ms. Fails if they make too many futex calls: only a few may wake now and
 * then. */
static void a_crowd_sleeps(void) {
    enum { EACH = 8, A_MS = 25 }; /* futex calls allowed: per thread, and per millisecond in all */
    pthread_t threads[WAITERS];
    void *(*const waits[])(void *) = {add_one, try_one, pause_until_done};
    for (unsigned i = 0; i < sizeof waits / sizeof *waits; i++) {
        count = 0;
        atomic_store(&done, false);
        hk_lock(&lock);
        const uint64_t before = hk_counted_ever(futex), start = now_ms();
        start_all(threads, waits[i]);
        usleep(300000);
        const uint64_t calls = hk_counted_ever(futex) - before;
        CHECK(calls < EACH * WAITERS + A_MS * (now_ms() - start));
        atomic_store(&done, true);
        hk_unlock(&lock);
        wait_all(threads);
        CHECK_EQ(count, waits[i] == add_one ? WAITERS : 0);
    }
    CHECK_EQ(atomic_load(&refused), 0);
}

/* All threads that wait in hk_lock_unless() must give up once the flag is set, and none before. */
static void who_is_told_gives_up(void) {
    pthread_t threads[WAITERS];
    hk_lock(&lock);
    start_all(threads, try_one);
    usleep(20000);
    CHECK_EQ(atomic_load(&refused), 0);
    atomic_store(&given_up, true);
    wait_all(threads);
    hk_unlock(&lock);
    CHECK_EQ(atomic_load(&refused), WAITERS);
}

int main(void) {
    one_at_a_time();
    a_crowd_sleeps();
    who_is_told_gives_up();
    return 0;
}
