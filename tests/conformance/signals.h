// A timer whose handler interrupts threads that allocate.
#ifndef CONFORMANCE_SIGNALS_H
#define CONFORMANCE_SIGNALS_H

#include "promise.h"

#include <signal.h>
#include <sys/time.h>

static inline void *work_interrupted(void *seed) {
    churn(scaled(400000, 30000), 256 * KIB, (uint64_t)(uintptr_t)seed);
    return NULL;
}

static inline void every_half_millisecond(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    NEED(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++)
        threads[i] = start(work_interrupted, (void *)(i + 1));
    struct itimerval often = {{0, 500}, {0, 500}}, never = {0};
    NEED(setitimer(ITIMER_REAL, &often, NULL) == 0, "setitimer");
    work_interrupted((void *)(uintptr_t)4);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
}

#endif
