/* Runs a fuzz target without a fuzzer: `PROGRAM SECONDS [FILE|FOLDER]...` runs all files, then random inputs for
 * SECONDS, half of them a file with some bytes changed. HAKMEM_TEST_SEED repeats a run. An input that fails is
 * kept in replay.PID.failed, in the current folder. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "../unit/check.h"
#include "fuzz.h"

enum { LONGEST = 4096, MOST_FILES = 512 };

typedef struct {
    size_t size;
    uint8_t bytes[LONGEST];
} input_t;

static input_t inputs[MOST_FILES], now;
static unsigned count;
static uint64_t seed, state, number;
static char failed[64]; /* name of the file for a failed input; has the process's number */

static void keep_what_failed(int signal) {
    dprintf(STDERR_FILENO, "replay: HAKMEM_TEST_SEED=%llu: input %llu ends by signal %d: %s\n",
            (unsigned long long)seed, (unsigned long long)number, signal, failed);
    int fd = open(failed, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, now.bytes, now.size) != (ssize_t)now.size)
        dprintf(STDERR_FILENO, "replay: %s cannot be written\n", failed);
    raise(signal); /* ends the process: SA_RESETHAND has restored the default */
}

static void run_now(void) {
    number++;
    LLVMFuzzerTestOneInput(now.bytes, now.size);
}

static void run_file(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, now.bytes, sizeof now.bytes) : -1;
    FUZZ_CHECK(got >= 0, "%s cannot be read", path);
    close(fd);
    now.size = (size_t)got;
    if (count < MOST_FILES)
        inputs[count++] = now;
    run_now();
}

static void run_path(const char *path) {
    struct stat is;
    FUZZ_CHECK(stat(path, &is) == 0, "no such file: %s", path);
    if (!S_ISDIR(is.st_mode)) {
        run_file(path);
        return;
    }
    struct dirent **entries;
    const int found = scandir(path, &entries, NULL, alphasort); /* the same order everywhere */
    FUZZ_CHECK(found >= 0, "%s cannot be read", path);
    for (int i = 0; i < found; i++) {
        char file[4096];
        if (entries[i]->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        run_file(file);
    }
}

static void make_by_chance(void) {
    if (count != 0 && chance(&state) % 2 != 0) {
        now = inputs[chance(&state) % count];
        for (unsigned changes = 1 + chance(&state) % 8; changes != 0 && now.size != 0; changes--)
            now.bytes[chance(&state) % now.size] = (uint8_t)chance(&state);
        return;
    }
    now.size = chance(&state) % LONGEST;
    for (size_t i = 0; i < now.size; i++)
        now.bytes[i] = (uint8_t)chance(&state);
}

static double seconds(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

int main(int argc, char **argv) {
    const char *given = getenv("HAKMEM_TEST_SEED");
    FUZZ_CHECK(argc >= 2, "usage: %s SECONDS [FILE|FOLDER]...", argv[0]);
    seed = given != NULL ? (uint64_t)strtoull(given, NULL, 0)
                         : (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
    state = seed != 0 ? seed : 1;
    snprintf(failed, sizeof failed, "replay.%d.failed", (int)getpid());
    dprintf(STDERR_FILENO, "replay: HAKMEM_TEST_SEED=%llu\n", (unsigned long long)seed);
    const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGALRM};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        sigaction(
            deadly[i],
            &(struct sigaction){.sa_handler = keep_what_failed, .sa_flags = (int)SA_RESETHAND},
            NULL);
    for (int i = 2; i < argc; i++)
        run_path(argv[i]);
    FUZZ_CHECK(argc == 2 || number != 0, "nothing in %s", argv[2]);
    for (const double end = seconds() + atof(argv[1]); seconds() < end;) {
        alarm(600); /* an input that hangs fails */
        make_by_chance();
        run_now();
    }
    printf("%llu inputs\n", (unsigned long long)number);
    return 0;
}
