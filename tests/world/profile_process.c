// A process with known allocations, for run_profile.py and run_leaks.py.
//
//   keep [FORKS]  keeps 300 blocks of 10000 bytes and 200 of 40, frees 1000 of 500; with FORKS a child keeps 100 of 7000
//   grow          keeps 64 blocks of 1 MiB, one after the other, and frees them
//   wait          says "ready", keeps what it reads lines for: one block of 3000 bytes each
//   forks         says "forks" in a fork, which goes on for ten seconds after a byte has come; then as wait
//   clean         frees all that it allocates
//   lose          keeps 20 blocks of 100, one by one from the last; nothing leads to 30 rings of two of 200 each, nor to 40
//                 of 300 that only freed ones lead to, nor to 15 of 50000
//   nothing       loses 5 blocks of no bytes, and keeps one
//   inherit       keeps a block of 500, which a child frees
//   busy          keeps a block, while a signal comes each millisecond
//   signal        keeps 100 blocks from what lies below a signal's stack, and ends on that; with IN_FRAME it lies on the thread's
//   many          keeps 40 blocks of 1000 to 1039 bytes, each from a stack of its own
//   shut          loses 30 rings, and closes stderr
//   last          keeps 300 blocks of 10000 bytes in a thread, with which the process ends: main has ended by then
//   small         grows in a thread with as small a stack as may be
//   read          keeps a block and prints a word, while a thread reads from a stream to which nothing comes
//   sparse        keeps a block; has a file's private pages beyond its end, addresses that it never writes to, and one byte of
//                 a large block that it frees; and ends with 1 if it had much memory
//   locked        frees 100 blocks of 200000, in each of which it has locked pages, as far as it may
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))
#define NO_JUMP __asm__ volatile("" ::: "memory") // a call at the end stays one

static void *volatile kept[4096];
static unsigned used;

APART static void keep_large(void) {
    for (unsigned i = 0; i < 300; i++)
        kept[used++] = malloc(10000);
    NO_JUMP;
}

APART static void keep_small(void) {
    for (unsigned i = 0; i < 200; i++)
        kept[used++] = malloc(40);
    NO_JUMP;
}

APART static void keep_in_child(void) {
    for (unsigned i = 0; i < 100; i++)
        kept[used++] = malloc(7000);
    NO_JUMP;
}

APART static void use_for_a_while(void) {
    for (unsigned i = 0; i < 1000; i++) {
        void *volatile p = malloc(500);
        free(p);
    }
    NO_JUMP;
}

APART static void grow(void) {
    for (unsigned i = 0; i < 64; i++)
        kept[i] = malloc(1 << 20);
    for (unsigned i = 0; i < 64; i++)
        free(kept[i]);
}

APART static void keep_lines(void) {
    char line[16];
    while (read(STDIN_FILENO, line, 1) == 1) {
        kept[used++] = malloc(3000);
        write(STDOUT_FILENO, "kept\n", 5);
    }
}

static bool takes_long;

static void wait_in_fork(void) {
    char byte;
    if (!takes_long)
        return;
    write(STDOUT_FILENO, "forks\n", 6);
    read(STDIN_FILENO, &byte, 1);
    sleep(10);
}

// Before the allocator's own handler: where this one runs that holds the other threads already.
static void register_early(int argc, char **argv, char **envp) {
    (void)envp;
    if (argc == 2 && strcmp(argv[1], "forks") == 0)
        pthread_atfork(wait_in_fork, NULL, NULL);
}
__attribute__((section(".preinit_array"),
               used)) static void (*const preinit)(int, char **, char **) = register_early;

static int fork_for_long(void) {
    int status = -1;
    takes_long = true;
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    return waitpid(child, &status, 0) != child || status != 0;
}

APART static void keep_chain(void) {
    for (unsigned i = 0; i < 20; i++) {
        char **block = malloc(100);
        block[2] = kept[0]; // of which some point inside the block
        kept[0] = (char *)block + i % 50;
    }
    NO_JUMP;
}

APART static void lose_rings(void) {
    for (unsigned i = 0; i < 30; i++) {
        void **one = malloc(200), **two = malloc(200);
        *one = two;
        *two = one;
    }
    NO_JUMP;
}

APART static void lose_children(void) {
    void **parents[40];
    for (unsigned i = 0; i < 40; i++) {
        parents[i] = malloc(1000);
        parents[i][1] = malloc(300);
    }
    for (unsigned i = 0; i < 40; i++)
        free(parents[i]);
    memset(parents, 0, sizeof parents);
    __asm__ volatile("" : : "r"(parents) : "memory");
}

APART static void lose_nothing(void) {
    for (unsigned i = 0; i < 5; i++)
        kept[0] = malloc(0);
    kept[0] = NULL;
    NO_JUMP;
}

APART static void lose_large(void) {
    for (unsigned i = 0; i < 15; i++)
        *(void *volatile *)malloc(50000) = NULL;
    NO_JUMP;
}

APART static int be_sparse(void) {
    const size_t large = (size_t)256 << 20, addresses = (size_t)16 << 30;
    const int rights = PROT_READ | PROT_WRITE, file = memfd_create("short", 0);
    if (file < 0 || ftruncate(file, 1) != 0 ||
        mmap(NULL, 1 << 20, rights, MAP_PRIVATE, file, 0) == MAP_FAILED ||
        mmap(NULL, addresses, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) ==
            MAP_FAILED)
        return 2;
    char *volatile p = malloc(large);
    p[1000] = 1;
    free(p);
    p = malloc(13); // no whole words
    free(p);
    kept[0] = malloc(100);
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) != 0 || (size_t)usage.ru_maxrss > large / 2 / 1024;
}

static int free_in_child(void) {
    kept[0] = malloc(500);
    const pid_t child = fork();
    if (child == 0) {
        free(kept[0]);
        kept[0] = NULL;
        return 0;
    }
    int status = -1;
    return waitpid(child, &status, 0) != child || status != 0;
}

static volatile int signals_seen;
static void see(int number) { signals_seen += number != 0; }

// Not SA_RESTART: a call that waits is interrupted.
static int be_busy(void) {
    const struct sigaction action = {.sa_handler = see};
    const struct itimerval often = {{0, 1000}, {0, 1000}};
    kept[0] = malloc(500);
    return sigaction(SIGALRM, &action, NULL) != 0 || setitimer(ITIMER_REAL, &often, NULL) != 0;
}

static struct {
    _Alignas(1 << 16) void *volatile blocks[50]; // in the same mapping as the stack
    char stack[1 << 17];
} below;
static void leave(int number) { exit(number - SIGUSR1); }

APART static int leave_by_signal(char *stack) {
    void *volatile blocks[50];
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof below.stack};
    const struct sigaction action = {.sa_handler = leave, .sa_flags = SA_ONSTACK};
    for (unsigned i = 0; i < 50; i++) {
        blocks[i] = malloc(500);
        below.blocks[i] = malloc(500);
    }
    if (sigaltstack(&alternate, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0)
        raise(SIGUSR1);
    return blocks[0] != NULL;
}

APART static int leave_in_frame(void) {
    char stack[sizeof below.stack];
    return leave_by_signal(stack);
}

APART static void keep_deep(unsigned depth, unsigned bytes) {
    if (depth != 0)
        keep_deep(depth - 1, bytes);
    else
        kept[used++] = malloc(bytes);
    NO_JUMP;
}

static pthread_barrier_t both_ready;

static void *read_for_ever(void *file) {
    pthread_barrier_wait(&both_ready);
    fgetc(file);
    return NULL;
}

static int read_in_a_thread(void) {
    int ends[2];
    pthread_t thread;
    if (pipe(ends) != 0 || pthread_barrier_init(&both_ready, NULL, 2) != 0 ||
        pthread_create(&thread, NULL, read_for_ever, fdopen(ends[0], "r")) != 0)
        return 2;
    pthread_barrier_wait(&both_ready);
    usleep(50000); // reading by then
    kept[0] = malloc(500);
    printf("word\n");
    return 0;
}

static pthread_t main_thread;

static void *keep_and_exit(void *unused) {
    pthread_join(main_thread, NULL);
    keep_large();
    exit(unused != NULL);
}

static int leave_to_another(void) {
    pthread_t thread;
    main_thread = pthread_self();
    if (pthread_create(&thread, NULL, keep_and_exit, NULL) == 0)
        pthread_exit(NULL);
    return 2;
}

static void *grow_there(void *unused) {
    grow();
    return unused;
}

static int grow_on_a_small_stack(void) {
    pthread_attr_t small;
    pthread_t thread;
    return pthread_attr_init(&small) != 0 ||
           pthread_attr_setstacksize(&small, (size_t)PTHREAD_STACK_MIN) != 0 ||
           pthread_create(&thread, &small, grow_there, NULL) != 0 ||
           pthread_join(thread, NULL) != 0;
}

static void free_locked(void) {
    enum { BLOCK = 200000, LOCKED = 16384 };
    for (unsigned i = 0; i < 100; i++) {
        char *p = malloc(BLOCK);
        memset(p, 1, BLOCK);
        mlock(p + BLOCK / 2, LOCKED);
        free(p);
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "keep") == 0) {
        keep_large();
        keep_small();
        use_for_a_while();
        if (argc > 2 && fork() == 0) {
            keep_in_child();
            return 0;
        }
        while (wait(NULL) > 0)
            ;
    } else if (strcmp(what, "grow") == 0) {
        grow();
    } else if (strcmp(what, "wait") == 0) {
        write(STDOUT_FILENO, "ready\n", 6);
        keep_lines();
    } else if (strcmp(what, "forks") == 0) {
        if (fork_for_long() != 0)
            return 1;
        keep_lines();
    } else if (strcmp(what, "lose") == 0) {
        keep_chain();
        lose_large();
        lose_rings();
        lose_children();
    } else if (strcmp(what, "nothing") == 0) {
        lose_nothing();
        kept[1] = malloc(0);
    } else if (strcmp(what, "inherit") == 0) {
        return free_in_child();
    } else if (strcmp(what, "busy") == 0) {
        return be_busy();
    } else if (strcmp(what, "signal") == 0) {
        return argc > 2 ? leave_in_frame() : leave_by_signal(below.stack);
    } else if (strcmp(what, "many") == 0) {
        for (unsigned i = 0; i < 40; i++)
            keep_deep(i, 1000 + (i * 7) % 40);
    } else if (strcmp(what, "shut") == 0) {
        lose_rings();
        fclose(stderr);
    } else if (strcmp(what, "last") == 0) {
        return leave_to_another();
    } else if (strcmp(what, "small") == 0) {
        return grow_on_a_small_stack();
    } else if (strcmp(what, "read") == 0) {
        return read_in_a_thread();
    } else if (strcmp(what, "sparse") == 0) {
        return be_sparse();
    } else if (strcmp(what, "locked") == 0) {
        free_locked();
    } else if (strcmp(what, "clean") == 0) {
        use_for_a_while();
        printf("done\n"); // whose buffer stays
    } else {
        return 2;
    }
    return 0;
}
