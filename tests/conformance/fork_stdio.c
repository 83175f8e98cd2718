// fork, getline on a shared stream and fflush(NULL) in different threads never wait for each other.
// The pattern of glibc's bug 19431: an allocator that holds its locks while fork waits for stdio's.
#include "promise.h"

#include <sys/mman.h>

static FILE *shared;

static void *reading(void *unused) {
    (void)unused;
    for (;;) {
        char *line = NULL;
        size_t room = 0;
        if (getline(&line, &room, shared) < 0) // allocates with the stream locked
            rewind(shared);
        free(line);
    }
    return NULL;
}

static void *flushing(void *unused) {
    (void)unused;
    for (;;)
        fflush(NULL); // waits for each stream with the list of them locked
    return NULL;
}

static void in_child(void) {
    FILE *own = fopen("/dev/null", "w");
    void *block = malloc(100000);
    if (own == NULL || block == NULL || fprintf(own, "%p\n", block) < 0 || fclose(own) != 0)
        BROKEN("stdio in a child: %s", strerror(errno));
    free(block);
    _exit(0);
}

static void *forking(void *unused) {
    (void)unused;
    for (long i = 0; i < scaled(2000, 150); i++) {
        pid_t pid = child();
        if (pid == 0)
            in_child();
        must_end_well(wait_for(pid), "a child");
    }
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    shared = fdopen(memfd_create("lines", 0), "r+");
    NEED(shared != NULL, "memfd_create");
    for (int i = 0; i < 200; i++)
        fprintf(shared, "%0*d\n", i % 8 == 0 ? 3000 * i : 10 * i + 1, i);
    fflush(shared);
    pthread_t forkers[2] = {start(forking, NULL), start(forking, NULL)};
    for (int i = 0; i < 3; i++)
        start(reading, NULL);
    start(flushing, NULL);
    pthread_join(forkers[0], NULL);
    pthread_join(forkers[1], NULL);
    _exit(0); // exit would flush, while the others still hold the stream
}
