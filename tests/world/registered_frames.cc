// Frames that the program registers with the unwinder, as compilers of code at run time do. libgcc keeps them under a
// lock, allocates and frees under it, and takes it for each stack from then on: what reads stacks in malloc and free must
// do without that.
//
//   frees   a block is freed while frames are registered that nobody has looked at yet
//   walks   the program is in the unwinder when that allocates
//   forks   a thread is there for good when another one forks
#include "process.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unwind.h>

extern "C" void __register_frame(void *);
extern "C" void __deregister_frame(void *);

static char code[4096];
static unsigned char *table;
static size_t page;

// One CIE, one FDE of 16 bytes of code, and the end.
static void make_table(const char *start) {
    static const unsigned char cie[] = {16, 0,    0,  0,    0, 0, 0,    0, 1, 0,
                                        1,  0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0};
    const struct {
        uint32_t length, back;
        uint64_t start, bytes, nothing;
    } fde = {24, 24, (uint64_t)(uintptr_t)start, 16, 0};
    memset(table, 0, page);
    memcpy(table, cie, sizeof cie);
    memcpy(table + sizeof cie, &fde, 28);
}

static void enroll(int i) {
    make_table(code + 16 * i);
    __register_frame(table);
}

static void frees() {
    for (int i = 0; i < 100; i++) {
        void *volatile p = malloc(100);
        enroll(i);
        free(p);
        __deregister_frame(table);
    }
}

static _Unwind_Reason_Code go_on(struct _Unwind_Context *, void *) { return _URC_NO_REASON; }

static void walk() { _Unwind_Backtrace(go_on, nullptr); }

static void walks() {
    for (int i = 0; i < 100; i++) {
        enroll(i);
        walk();
        __deregister_frame(table);
    }
}

static int enters[2], leaves[2];

// The unwinder has come to the table, and holds its lock.
static void on_fault(int) {
    char byte = 0;
    if (write(enters[1], &byte, 1) != 1 || read(leaves[0], &byte, 1) != 1)
        _exit(2);
    mprotect(table, page, PROT_READ | PROT_WRITE);
}

static void *stay_in_unwinder(void *unused) {
    walk();
    return unused;
}

static void allocate() {
    for (int i = 0; i < 300; i++) {
        void *volatile p = malloc(100);
        free(p);
    }
}

static void forks() {
    struct sigaction action = {};
    pthread_t thread;
    char byte = 0;
    action.sa_handler = on_fault;
    CHECK(pipe(enters) == 0 && pipe(leaves) == 0, "pipe: %s", strerror(errno));
    CHECK(sigaction(SIGSEGV, &action, nullptr) == 0, "sigaction: %s", strerror(errno));
    enroll(0);
    mprotect(table, page, PROT_NONE);
    CHECK(pthread_create(&thread, nullptr, stay_in_unwinder, nullptr) == 0, "pthread_create");
    CHECK(read(enters[0], &byte, 1) == 1, "read: %s", strerror(errno));
    allocate();
    const pid_t child = fork();
    if (child == 0) {
        watchdog(20);
        allocate();
        _exit(0);
    }
    CHECK_CHILD_OK(child, "fork");
    CHECK(write(leaves[1], &byte, 1) == 1, "write: %s", strerror(errno));
    pthread_join(thread, nullptr);
    __deregister_frame(table);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    world_begin(60);
    page = (size_t)sysconf(_SC_PAGESIZE);
    table = (unsigned char *)mmap(nullptr, page, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(table != MAP_FAILED, "mmap: %s", strerror(errno));
    if (strcmp(what, "frees") == 0)
        frees();
    if (strcmp(what, "walks") == 0)
        walks();
    if (strcmp(what, "forks") == 0)
        forks();
}
