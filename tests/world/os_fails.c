// os_fails map|once|unmap|advise: an operating system that refuses. The test starts itself again
// with a seccomp filter that traps the calls of one kind before any library's constructor runs, and
// lets them fail from the N-th on (once: only the N-th), for N over the whole run. The allocator
// then answers NULL and ENOMEM or works; it never crashes, and recovers when the system does.
#include "pattern.h"
#include "process.h"

#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <ucontext.h>

enum { BLOCKS = 1000, ROUNDS = 2, RUNS = 30, MAX_CALLS_PER_KIND = 3 };

static const struct {
    const char *name;
    long numbers[MAX_CALLS_PER_KIND];
} kinds[] = {
    {"map", {SYS_mmap, SYS_mremap, SYS_mprotect}},
    {"once", {SYS_mmap, SYS_mremap, SYS_mprotect}},
    {"unmap", {SYS_munmap, SYS_munmap, SYS_munmap}},
    {"advise", {SYS_madvise, SYS_process_madvise, SYS_madvise}},
};

static atomic_long calls_seen, fail_from = LONG_MAX, fail_to = LONG_MAX;

// The one system call instruction that the filter lets through: the handler carries out with it
// what it does not refuse.
long world_raw_syscall(long number, long a, long b, long c, long d, long e, long f);
extern const char world_raw_syscall_end[];
__asm__(".text\n"
        ".hidden world_raw_syscall, world_raw_syscall_end\n"
        ".globl world_raw_syscall, world_raw_syscall_end\n"
        ".type world_raw_syscall, @function\n"
        "world_raw_syscall:\n"
        "  mov %rdi, %rax\n  mov %rsi, %rdi\n  mov %rdx, %rsi\n  mov %rcx, %rdx\n"
        "  mov %r8, %r10\n  mov %r9, %r8\n  mov 8(%rsp), %r9\n"
        "  syscall\n"
        "world_raw_syscall_end:\n"
        "  ret\n");

static void on_trap(int number, siginfo_t *info, void *context) {
    (void)number;
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    long call = atomic_fetch_add(&calls_seen, 1);
    if (call >= atomic_load(&fail_from) && call < atomic_load(&fail_to))
        regs[REG_RAX] = -ENOMEM;
    else
        regs[REG_RAX] = world_raw_syscall(info->si_syscall, regs[REG_RDI], regs[REG_RSI],
                                          regs[REG_RDX], regs[REG_R10], regs[REG_R8], regs[REG_R9]);
}

#define LOAD(field)                                                                                \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, field))
#define LOAD_HIGH(field)                                                                           \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, field) + 4)
#define SKIP_UNLESS(value, instructions)                                                           \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), 0, instructions)
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, action)

static bool install_filter(const long numbers[MAX_CALLS_PER_KIND]) {
    uintptr_t pass = (uintptr_t)world_raw_syscall_end;
    struct sock_filter filter[] = {
        LOAD(instruction_pointer),      SKIP_UNLESS(pass & 0xffffffff, 3),
        LOAD_HIGH(instruction_pointer), SKIP_UNLESS(pass >> 32, 1),
        ANSWER(SECCOMP_RET_ALLOW),      LOAD(nr),
        SKIP_UNLESS(numbers[0], 1),     ANSWER(SECCOMP_RET_TRAP),
        SKIP_UNLESS(numbers[1], 1),     ANSWER(SECCOMP_RET_TRAP),
        SKIP_UNLESS(numbers[2], 1),     ANSWER(SECCOMP_RET_TRAP),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// argv of a child: os_fails KIND N REPORT_FD. Runs before the constructors of all libraries.
static void install(int argc, char **argv, char **envp) {
    (void)envp;
    if (argc != 4)
        return;
    size_t kind = 0;
    while (strcmp(kinds[kind].name, argv[1]) != 0)
        kind++;
    long from = strtol(argv[2], NULL, 10);
    atomic_store(&fail_from, from);
    if (strcmp(argv[1], "once") == 0)
        atomic_store(&fail_to, from < LONG_MAX ? from + 1 : from);
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSYS, &action, NULL) != 0 || !install_filter(kinds[kind].numbers))
        _exit(WORLD_SKIPPED);
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **,
                                                                              char **) = install;

static bool refused(const void *block, size_t n) {
    CHECK(block != NULL || errno == ENOMEM, "allocation of %zu: NULL with errno %d", n, errno);
    return block == NULL;
}

static size_t size_of(size_t i, uint64_t *rng) {
    if (i % 500 == 7)
        return 3 * MIB + rng_below(rng, 2 * MIB);
    return rng_size(rng, i % 25 == 3 ? 300000 : 4000) + sizeof(block_t);
}

static block_t *allocate(size_t i, size_t n) {
    errno = 0;
    void *memory = i % 3 == 0 ? malloc(n) : i % 3 == 1 ? calloc(n, 1) : memalign(64, n);
    return refused(memory, n) ? NULL : block_fill(memory, n, i);
}

static block_t *resize(block_t *block, size_t n) {
    size_t old = block->size;
    errno = 0;
    block_t *moved = realloc(block, n);
    if (refused(moved, n)) {
        block_check(block); // still there, still whole
        return block;
    }
    size_t common = (old < n ? old : n) - sizeof *moved;
    CHECK_PATTERN(moved + 1, common, moved->seed ^ moved->size);
    return block_fill(moved, n, moved->seed);
}

// Returns how many allocations were refused.
static size_t run_round(uint64_t *rng) {
    static block_t *blocks[BLOCKS];
    size_t refusals = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = allocate(i, size_of(i, rng));
        refusals += blocks[i] == NULL;
    }
    for (size_t i = 0; i < BLOCKS; i += 3)
        if (blocks[i] != NULL)
            blocks[i] = resize(blocks[i], size_of(rng_below(rng, BLOCKS), rng));
    malloc_trim(0);
    for (size_t i = 0; i < BLOCKS; i++)
        block_delete(blocks[i * 7 % BLOCKS]);
    return refusals;
}

static int be_child(int report_fd) {
    uint64_t rng = 11;
    size_t refusals = 0;
    for (int round = 0; round < ROUNDS; round++)
        refusals += run_round(&rng);
    atomic_store(&fail_from, LONG_MAX); // the system has memory again: so must we
    size_t late = run_round(&rng);
    CHECK(late == 0, "%zu allocations refused after the system recovered", late);
    long report[2] = {atomic_load(&calls_seen), (long)refusals};
    CHECK(write(report_fd, report, sizeof report) == sizeof report, "report");
    return 0;
}

typedef struct {
    long calls, refusals;
} outcome_t;

static outcome_t start_child(const char *self, const char *kind, long from) {
    int ends[2];
    CHECK(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        char from_text[32], fd_text[16];
        snprintf(from_text, sizeof from_text, "%ld", from);
        snprintf(fd_text, sizeof fd_text, "%d", ends[1]);
        execl(self, self, kind, from_text, fd_text, (char *)NULL);
        _exit(126);
    }
    close(ends[1]);
    long report[2] = {0, 0};
    ssize_t got = read(ends[0], report, sizeof report);
    close(ends[0]);
    int status = process_wait(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == WORLD_SKIPPED)
        world_skip("seccomp filters are not permitted here");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0 && got == sizeof report,
          "%s fails from call %ld: child ended with status 0x%x (repeat with: %s %s %ld 2)", kind,
          from, status, self, kind, from);
    return (outcome_t){report[0], report[1]};
}

int main(int argc, char **argv) {
    world_begin(60);
    if (argc == 4)
        return be_child(atoi(argv[3]));
    CHECK(argc == 2, "usage: os_fails map|once|unmap|advise");
    char self[4096] = "";
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "/proc/self/exe");
    outcome_t clean = start_child(self, argv[1], LONG_MAX);
    CHECK(clean.refusals == 0, "%ld refusals without a failing call", clean.refusals);
    bool mapping = strcmp(argv[1], "map") == 0 || strcmp(argv[1], "once") == 0;
    CHECK(clean.calls > 0 || !mapping, "the allocator made no call that could fail");
    long step = clean.calls / RUNS + 1;
    for (long from = 0; from < clean.calls; from += from < 15 ? 1 : step)
        start_child(self, argv[1], from);
    world_say("%ld calls of kind %s in a run without failures", clean.calls, argv[1]);
    return 0;
}

#else

int main(void) { world_skip("the trap handler is written for x86-64 only"); }

#endif
