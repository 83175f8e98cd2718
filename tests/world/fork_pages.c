// What a fork's child copies before it does anything: servers have hundreds of children.
#include "process.h"

#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/resource.h>

static uintptr_t data,
    data_end; // of the library: what has a value from the start, and what is zero then

static int find_data(struct dl_phdr_info *object, size_t bytes, void *unused) {
    (void)bytes, (void)unused;
    for (int i = 0; i < object->dlpi_phnum && strstr(object->dlpi_name, "/libhakmem.so"); i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) == 0)
            continue;
        data = object->dlpi_addr + segment->p_vaddr;
        data_end = data + segment->p_memsz;
    }
    return 0;
}

// Pages of that which are nobody else's and not the file's.
static int own_pages(void) {
    const uint64_t present = 1ull << 63, of_a_file = 1ull << 61, nobody_elses = 1ull << 56;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const int map = open("/proc/self/pagemap", O_RDONLY);
    int own = 0;
    for (uintptr_t at = data / page; at <= data_end / page; at++) {
        uint64_t is = 0;
        if (pread(map, &is, sizeof is, (off_t)(at * sizeof is)) == sizeof is)
            own += (is & present) != 0 && (is & of_a_file) == 0 && (is & nobody_elses) != 0;
    }
    return own;
}

// One page of the library's (tools/order.ld); none where the system does not say.
static void one_of_the_library(void) {
    free(malloc(100));
    dl_iterate_phdr(find_data, NULL);
    const pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        const int own = own_pages();
        CHECK_OURS(own <= 1, "a child has %d pages of the library", own);
        _exit(0);
    }
    CHECK_CHILD_OK(child, "one that does nothing");
}

// Page faults of a child that does nothing, by the time it does.
static long faults_of_child(void) {
    int ends[2];
    long faults = 0;
    CHECK(pipe(ends) == 0, "pipe: %s", strerror(errno));
    const pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        _exit(write(ends[1], &usage.ru_minflt, sizeof usage.ru_minflt) != sizeof faults);
    }
    CHECK(read(ends[0], &faults, sizeof faults) == sizeof faults, "read: %s", strerror(errno));
    CHECK_CHILD_OK(child, "one that counts");
    close(ends[0]);
    close(ends[1]);
    return faults;
}

static pthread_barrier_t together;

static void *allocate(void *unused) {
    free(malloc(100));
    pthread_barrier_wait(&together);
    return unused;
}

// None for threads that have ended.
static void none_for_threads(void) {
    enum { THREADS = 300, MORE = 60 };
    static pthread_t threads[THREADS];
    pthread_attr_t small;
    const long before = faults_of_child();
    CHECK(pthread_barrier_init(&together, NULL, THREADS) == 0, "pthread_barrier_init");
    CHECK(pthread_attr_init(&small) == 0, "pthread_attr_init");
    CHECK(pthread_attr_setstacksize(&small, 128 << 10) == 0, "pthread_attr_setstacksize");
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], &small, allocate, NULL) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0, "pthread_join");
    const long after = faults_of_child();
    world_say("page faults of a child: %ld, and %ld after %d threads", before, after, THREADS);
    CHECK_OURS(after <= before + MORE, "a child pays for threads that have ended");
}

int main(void) {
    world_begin(60);
    one_of_the_library();
    none_for_threads();
    return 0;
}
