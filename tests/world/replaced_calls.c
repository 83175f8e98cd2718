// The program replaces what the allocator's own thread needs, as tracers do: pthread_create, with a lock held around the C library's,
// and an allocation in each thread that begins, and pthread_detach, which knows only these threads; or what memory goes back by,
// with an allocation in each call. Nobody waits for ever, and the process ends once its own threads have.
#include "process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { BLOCKS = 100, KEPT = 20 };

static bool replaces_create;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int begun, calls;
static _Thread_local bool is_ours, inside;

typedef struct {
    void *(*run)(void *);
    void *argument;
} start_t;

static void *begin(void *argument) {
    start_t *start = argument, own = *start;
    char *name = strdup("what a tracer keeps of a thread");
    CHECK(name != NULL, "strdup");
    atomic_fetch_add(&begun, 1);
    void *result = own.run(own.argument);
    free(name);
    free(start);
    return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument) {
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *found = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&next, &found, sizeof found);
    if (!replaces_create)
        return next(thread, attributes, run, argument);
    pthread_mutex_lock(&lock);
    start_t *start = malloc(sizeof *start);
    CHECK(start != NULL, "malloc");
    *start = (start_t){run, argument};
    int error = next(thread, attributes, begin, start);
    pthread_mutex_unlock(&lock);
    return error;
}

// The program's own are never detached.
int pthread_detach(pthread_t thread) {
    (void)thread;
    CHECK(false, "a thread that was not begun by the program is detached by it");
    return 0;
}

static void allocate_once(void) {
    if (replaces_create || is_ours || inside)
        return;
    inside = true;
    atomic_fetch_add(&calls, 1);
    free(strdup("what a tracer keeps of a call"));
    inside = false;
}

int munmap(void *p, size_t bytes) {
    allocate_once();
    return (int)syscall(SYS_munmap, p, bytes);
}

int madvise(void *p, size_t bytes, int advice) {
    allocate_once();
    return (int)syscall(SYS_madvise, p, bytes, advice);
}

static void fill(char **blocks, int count) {
    for (int i = 0; i < count; i++) {
        CHECK((blocks[i] = malloc(MIB)) != NULL, "malloc");
        memset(blocks[i], 1, MIB);
    }
}

// Until there is a thread that is neither this nor the first, or that one has given something back.
static void await_the_other(void) {
    struct stat tasks = {0};
    while (replaces_create ? tasks.st_nlink < 5
                           : atomic_load(&calls) == 0) { // where it lies, and a folder each
        CHECK(stat("/proc/self/task", &tasks) == 0, "/proc/self/task: %s", strerror(errno));
        usleep(1000);
    }
}

static void *work(void *unused) {
    static char *blocks[BLOCKS];
    is_ours = true;
    fill(blocks, BLOCKS);
    for (int i = KEPT; i < BLOCKS; i++)
        free(blocks[i]);
    if (world_on_hakmem())
        await_the_other();
    CHECK(atomic_load(&begun) == replaces_create,
          "a thread that is not the program's was begun by it");
    return unused;
}

int main(int argc, char **argv) {
    static char *blocks[BLOCKS];
    pthread_t thread;
    world_begin(30);
    is_ours = true;
    replaces_create = argc > 1 && strcmp(argv[1], "create") == 0;
    fill(blocks, BLOCKS / 2);
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    pthread_exit(NULL);
}
