// A process that does nothing unusual needs no more of the library's file than the first 64 KiB and what begins where
// the last 64 KiB do, which is the start, the end and forks (tools/order.ld): the rest may as well be out of reach. Nor does
// one that is to write a proof.
#include "process.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

#define FIRST ((uintptr_t)64 << 10)

static uintptr_t base;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    world_say(
        "the library's file was needed at 0x%zx: addr2line -f -e build/libhakmem.so says what "
        "that is; tools/order.ld has what lies there",
        (size_t)((uintptr_t)info->si_addr - base));
    _exit(1);
}

// Where the file's beginning is mapped, and what of its code p lies in ends.
static uintptr_t mapping_of(const void *p, uintptr_t *end) {
    uintptr_t start = 0, offset = 1;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "/proc/self/maps: %s", strerror(errno));
    while (fgets(line, sizeof line, maps) != NULL &&
           (sscanf(line, "%zx-%zx %*s %zx", &start, end, &offset) != 3 || *end <= (uintptr_t)p))
        continue;
    fclose(maps);
    CHECK(start <= (uintptr_t)p && (uintptr_t)p < *end && offset < FIRST, "no mapping of %p", p);
    return start - offset;
}

static void *do_little(void *unused) {
    enum { BLOCKS = 6000 };
    static _Thread_local char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        const size_t size = 16 + i * 37 % 1500;
        CHECK((blocks[i] = i % 7 == 0 ? calloc(1, size) : malloc(size)) != NULL, "malloc");
        if (i % 3 == 2)
            CHECK((blocks[i] = realloc(blocks[i], 2 * size)) != NULL, "realloc");
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    free(aligned_alloc(64, 256));
    free(malloc(100000));
    return unused;
}

// Resident, of the library's file.
static int say_resident(void) {
    char line[512], access[8];
    int sum = 0, kib;
    bool is_ours = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps != NULL, "/proc/self/smaps: %s", strerror(errno));
    while (fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%*x-%*x %7s", access) == 1)
            is_ours = strstr(line, "/libhakmem.so") != NULL;
        else if (is_ours && sscanf(line, "Rss: %d", &kib) == 1)
            sum += kib;
    }
    return printf("%d\n", sum) < 0;
}

// The most of several: now and then the system maps fewer of the pages around one that is needed.
static int resident_in_child(const char *self) {
    enum { CHILDREN = 8 };
    char command[4200];
    int most = 0;
    snprintf(command, sizeof command, "exec %s resident", self);
    for (int i = 0; i < CHILDREN; i++) {
        int kib = 0;
        FILE *child = popen(command, "r");
        CHECK(child != NULL && fscanf(child, "%d", &kib) == 1, "popen");
        CHECK(pclose(child) == 0 && kib > 0, "the child failed");
        most = kib > most ? kib : most;
    }
    return most;
}

// Tried again, for of a file that has just been written the system holds pieces of changing lengths.
static void a_proof_needs_no_more(const char *self) {
    enum { TRIES = 20, MOST_KIB = 4 };
    int quiet, proven;
    unsigned tries = 0;
    do {
        usleep(tries * 50000);
        CHECK(unsetenv("HAKMEM_PROOF") == 0, "unsetenv");
        quiet = resident_in_child(self);
        CHECK(setenv("HAKMEM_PROOF", "/dev/null", 1) == 0, "setenv");
        proven = resident_in_child(self);
    } while (proven > quiet + MOST_KIB && ++tries < TRIES);
    CHECK(proven <= quiet + MOST_KIB, "%d KiB of the library, %d with a proof", quiet, proven);
}

int main(int argc, char **argv) {
    if (argc == 2)
        return say_resident();
    world_begin(30);
    a_proof_needs_no_more(argv[0]);
    void *const inside = dlsym(RTLD_DEFAULT, "malloc");
    uintptr_t end, last;
    CHECK(inside != NULL, "no malloc");
    base = mapping_of(inside, &end);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction: %s", strerror(errno));
    last = (end - 1) & ~(FIRST - 1);
    CHECK(last > base + FIRST, "the library's code ends at 0x%zx", (size_t)(end - base));
    CHECK(mprotect((char *)base + FIRST, last - base - FIRST, PROT_NONE) == 0, "mprotect: %s",
          strerror(errno));
    do_little(NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, do_little, NULL) == 0, "pthread_create");
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    const pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0)
        _exit(0);
    CHECK_CHILD_OK(child, "one that does nothing");
    return 0;
}
