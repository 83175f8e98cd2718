// A second thread that has allocated and does nothing more: without such company a process has no
// purger, but works on foot.
#ifndef WORLD_COMPANY_H
#define WORLD_COMPANY_H

#include "process.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static inline void *idle(void *there) {
    free(malloc(1));
    atomic_store((atomic_bool *)there, true);
    for (;;)
        pause();
    return there;
}

// It takes no signals.
static inline void have_company(void) {
    static atomic_bool there;
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all); // its own faults too, which tells it from a purger
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0, "pthread_sigmask");
    CHECK(pthread_create(&thread, NULL, idle, &there) == 0, "pthread_create");
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0, "pthread_sigmask");
    while (!atomic_load(&there))
        usleep(1000);
}

#endif
