// Threads that fork, threads that read from streams line by line, one that flushes all streams: the
// C library's fork takes its list of streams after the handlers of others have run, so an allocator
// whose handler holds locks until then waits, through the owner of a stream, for itself.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { FORKERS = 2, READERS = 4, FORKS = 400 };

static atomic_bool done;

static void *read_lines(void *unused) {
    while (!atomic_load(&done)) {
        FILE *stream = fopen("/proc/self/maps", "r");
        CHECK(stream != NULL, "fopen");
        char *line = NULL;
        size_t size = 0;
        while (getline(&line, &size, stream) > 0)
            if (size % 3 == 0) {
                free(line);
                line = NULL;
                size = 0;
            }
        free(line);
        fclose(stream);
    }
    return unused;
}

static void *flush_all(void *unused) {
    while (!atomic_load(&done))
        fflush(NULL);
    return unused;
}

static void *fork_often(void *unused) {
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0) {
            void *volatile p = malloc(100 + (size_t)i);
            FILE *stream = fopen("/dev/null", "w");
            fprintf(stream, "%p\n", p);
            fclose(stream);
            free(p);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "status 0x%x", status);
    }
    return unused;
}

int main(void) {
    world_begin(100);
    pthread_t forkers[FORKERS], readers[READERS], flusher;
    CHECK(pthread_create(&flusher, NULL, flush_all, NULL) == 0, "pthread_create");
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_create(&readers[i], NULL, read_lines, NULL) == 0, "pthread_create");
    for (int i = 0; i < FORKERS; i++)
        CHECK(pthread_create(&forkers[i], NULL, fork_often, NULL) == 0, "pthread_create");
    for (int i = 0; i < FORKERS; i++)
        pthread_join(forkers[i], NULL);
    atomic_store(&done, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    pthread_join(flusher, NULL);
    return 0;
}
