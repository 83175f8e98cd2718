// stats_process MODE: a process for run_stats.py to look at from outside.
//   figures   prints what hak_stats_get() says, then the same in each format, between lines
//             "== name"
//   fork      a forked child and its parent both end by exit()
//   wait      says "ready" and its number, and stays until its standard input ends; with the
//             further words: threads  that allocate, free and fork meanwhile
//                            own      SIGUSR2 is the program's: it says "mine"
//                            child    a forked child does the waiting
//                            nobody   it is that user's from then on
//                            shut     all files but standard input are closed at the first input
//                            silent   stderr is, then
//   shut HOW  stderr is closed as the process exits, and so are        stderr  none
//                            all files above it, with FILE opened in their place    FILE
//             or in a forked child, which then has no copy of it either   child
//   leave FOLDER   ends in that one
//   last      main ends by pthread_exit, and then the last thread
//   last child   the same in a forked child
//   huge N    allocates and frees a block of 8 MiB N times
#include "process.h"
#include "statistics.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/stat.h>

static struct {
    const char *name;
    size_t offset;
} const figures[] =
    {
#define HK_GAUGE(name, unit, doc) {#name, offsetof(hak_stats_t, name)},
#define HK_TOTAL HK_GAUGE
#include "stats/fields.def"
},
        band_figures[] = {
#define HK_BAND(name, unit, doc) {#name, offsetof(hak_stats_band_t, name)},
#include "stats/fields.def"
};

static void say(const char *name, const char *prefix, unsigned band, const void *from) {
    uint64_t value;
    memcpy(&value, from, sizeof value);
    dprintf(STDOUT_FILENO, "%s%u.%s %llu\n", prefix, band, name, (unsigned long long)value);
}

static void print_struct(const hak_stats_t *stats) {
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        say(figures[i].name, "heap", 0, (const char *)stats + figures[i].offset);
    for (unsigned band = 0; band < HAK_STATS_BANDS; band++)
        for (size_t i = 0; i < sizeof band_figures / sizeof *band_figures; i++)
            say(band_figures[i].name, "band", band,
                (const char *)&stats->bands[band] + band_figures[i].offset);
}

// Blocks of all bands, some of them freed, some by another thread that has ended.
static void *some_freed[64];

static void *free_some(void *unused) {
    for (size_t i = 0; i < 64; i += 3)
        free(some_freed[i]);
    return unused;
}

static void use_memory(void) {
    for (size_t i = 0; i < 64; i++)
        memset(some_freed[i] = malloc((size_t)1 << i % 23), 1, (size_t)1 << i % 23);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_some, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    for (size_t i = 1; i < 64; i += 3)
        free(some_freed[i]);
}

static void print_figures(void) {
    int (*print)(int, hak_stats_format_t);
    WORLD_FIND(print, "hak_stats_print");
    use_memory();
    hak_stats_t before = statistics();
    dprintf(STDOUT_FILENO, "== struct\n");
    print_struct(&before);
    static const char *const names[] = {"text", "json", "openmetrics"};
    for (unsigned format = 0; format < 3; format++) {
        dprintf(STDOUT_FILENO, "== %s\n", names[format]);
        CHECK(print(STDOUT_FILENO, (hak_stats_format_t)format) == 0, "%s", strerror(errno));
    }
    // Our part of the process has not moved meanwhile, so the formats must agree; but to ask is to
    // call the system.
    hak_stats_t after = statistics();
    CHECK(after.other_calls > before.other_calls, "asking is not counted");
    after.peak_resident = before.peak_resident;
    after.other_calls = before.other_calls;
    after.mincore = before.mincore;
    after.calls = before.calls;
    CHECK(memcmp(&before, &after, sizeof before) == 0, "the heap was not quiet");
}

static void fork_once(void) {
    free(malloc(100));
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0)
        exit(0);
    CHECK_CHILD_OK(child, "fork");
    dprintf(STDOUT_FILENO, "%d\n", (int)child);
}

static void say_mine(int number) {
    (void)number;
    static const char text[] = "mine\n";
    ssize_t written = write(STDOUT_FILENO, text, sizeof text - 1);
    (void)written;
}

static atomic_bool stop;

static void *churn(void *unused) {
    void *slots[100] = {0};
    for (size_t i = 0; !atomic_load(&stop); i++) {
        free(slots[i % 100]);
        slots[i % 100] = malloc(i * 7919 % 5000);
    }
    return unused;
}

static void *fork_often(void *unused) {
    while (!atomic_load(&stop)) {
        pid_t child = fork();
        if (child == 0) {
            free(malloc(1000));
            exit(0);
        }
        CHECK_CHILD_OK(child, "child of a busy process");
        usleep(2000);
    }
    return unused;
}

static void wait_for_end(int words, char **word) {
    pthread_t threads[3];
    bool busy = false;
    for (int i = 0; i < words; i++) {
        if (strcmp(word[i], "own") == 0)
            signal(SIGUSR2, say_mine);
        if (strcmp(word[i], "nobody") == 0)
            CHECK(setuid(65534) == 0, "setuid: %s", strerror(errno));
        if (strcmp(word[i], "child") == 0) {
            pid_t child = fork();
            CHECK(child >= 0, "fork");
            if (child != 0) {
                CHECK_CHILD_OK(child, "waiting child");
                return;
            }
        }
        busy |= strcmp(word[i], "threads") == 0;
    }
    for (size_t i = 0; busy && i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, i == 0 ? fork_often : churn, NULL) == 0, "thread");
    dprintf(STDOUT_FILENO, "ready %d\n", (int)getpid());
    const bool shuts = words == 1 && strcmp(word[0], "shut") == 0;
    const bool is_silent = words == 1 && strcmp(word[0], "silent") == 0;
    char text[64];
    ssize_t n;
    do {
        n = read(STDIN_FILENO, text, sizeof text);
        for (int fd = 1; shuts && fd < 1024; fd++)
            close(fd);
        if (is_silent)
            close(STDERR_FILENO);
    } while (n > 0 || (n < 0 && errno == EINTR));
    atomic_store(&stop, true);
    for (size_t i = 0; busy && i < 3; i++)
        pthread_join(threads[i], NULL);
}

static char *lost; // at the end
static const char *in_its_place;

static void shut_late(void) {
    if (in_its_place != NULL) {
        const int other = open(in_its_place, O_WRONLY | O_CREAT, 0600);
        CHECK(other > STDERR_FILENO, "open");
        for (int fd = other + 1; fd < 1024; fd++)
            CHECK(fcntl(fd, F_GETFD) < 0 || dup2(other, fd) == fd, "dup2");
    }
    CHECK(close(STDERR_FILENO) == 0, "close");
}

static void check_no_copy_in_child(void) {
    struct stat err, found;
    CHECK(fstat(STDERR_FILENO, &err) == 0, "fstat");
    const pid_t child = fork();
    for (int fd = 3; child == 0 && fd < 1024; fd++)
        if (fstat(fd, &found) == 0 && found.st_ino == err.st_ino && found.st_dev == err.st_dev)
            _exit(fd);
    if (child == 0)
        _exit(0);
    CHECK_CHILD_OK(child, "a copy of stderr in a child");
}

static void shut(const char *how) {
    if (strcmp(how, "child") == 0) {
        check_no_copy_in_child();
        return;
    }
    CHECK((lost = malloc(100)) != NULL, "malloc");
    in_its_place = strcmp(how, "stderr") != 0 ? how : NULL;
    CHECK(atexit(shut_late) == 0, "atexit");
}

static void *end_last(void *of_main) {
    pthread_join(*(pthread_t *)of_main, NULL);
    free(malloc(1000));
    printf("last"); // for who ends the process to write
    return NULL;
}

static void leave_to_another(void) {
    static pthread_t self;
    pthread_t thread;
    self = pthread_self();
    CHECK(pthread_create(&thread, NULL, end_last, &self) == 0, "pthread_create");
    pthread_detach(thread);
    pthread_exit(NULL);
}

static void leave_to_another_in_child(void) {
    const pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        watchdog(20);
        leave_to_another();
    }
    CHECK_CHILD_OK(child, "last");
}

int main(int argc, char **argv) {
    world_begin(60);
    CHECK(argc >= 2, "a mode is missing");
    if (strcmp(argv[1], "figures") == 0)
        print_figures();
    else if (strcmp(argv[1], "fork") == 0)
        fork_once();
    else if (strcmp(argv[1], "wait") == 0)
        wait_for_end(argc - 2, argv + 2);
    else if (strcmp(argv[1], "shut") == 0 && argc == 3)
        shut(argv[2]);
    else if (strcmp(argv[1], "leave") == 0 && argc == 3)
        CHECK(chdir(argv[2]) == 0, "chdir: %s", strerror(errno));
    else if (strcmp(argv[1], "last") == 0 && argc == 2)
        leave_to_another();
    else if (strcmp(argv[1], "last") == 0 && strcmp(argv[2], "child") == 0)
        leave_to_another_in_child();
    else if (strcmp(argv[1], "huge") == 0 && argc == 3)
        for (long n = strtol(argv[2], NULL, 10); n > 0; n--)
            free(memset(malloc(8 * MIB), 1, 1));
    else
        CHECK(false, "unknown mode %s", argv[1]);
    return 0;
}
