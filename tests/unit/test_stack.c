/* Stacks through code made at run time, with and without unwind data registered for it. */
#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/base.h"
#include "check.h"
#include "os/stack.h"

#if defined(__x86_64__)

enum { MOST = 32, KEEPS_NONE = 16, TAKES_IT = 32 };

/* With a frame: push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret.
 * KEEPS_NONE, without one: push %rbx; call *%rdi; pop %rbx; ret.
 * TAKES_IT, with the frame pointer that the caller passes: push %rbp; mov %rsi, %rbp; call *%rdi; pop %rbp; ret */
static const unsigned char instructions[] = {[0] = 0x55,
                                             0x48,
                                             0x89,
                                             0xe5,
                                             0xff,
                                             0xd7,
                                             0x5d,
                                             0xc3,
                                             [KEEPS_NONE] = 0x53,
                                             0xff,
                                             0xd7,
                                             0x5b,
                                             0xc3,
                                             [TAKES_IT] = 0x55,
                                             0x48,
                                             0x89,
                                             0xf5,
                                             0xff,
                                             0xd7,
                                             0x5d,
                                             0xc3};

/* Unwind data for these instructions that does not say where the caller's frame is. */
static struct {
    uint32_t cie_bytes, cie_id;
    unsigned char version, augmentation, code_align, data_align, return_column, cie_rest[7];
    uint32_t fde_bytes, to_cie;
    uint64_t start, bytes;
    uint32_t end;
} __attribute__((packed)) registered = {.cie_bytes = 16,
                                        .version = 1,
                                        .code_align = 1,
                                        .data_align = 0x78,
                                        .return_column = 16,
                                        .fde_bytes = 20,
                                        .to_cie = 24};

static void *frames[MOST];
static unsigned count;

static void read_stack(void) {
    count = hk_stack_read(frames, MOST);
    __asm__ volatile("");
}

static char *make_code(void) {
    char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    memcpy(code, instructions, sizeof instructions);
    CHECK(mprotect(code, 4096, PROT_READ | PROT_EXEC) == 0);
    return code;
}

static bool is_within(const void *frame, const void *start, size_t bytes) {
    return (uintptr_t)frame - (uintptr_t)start < bytes;
}

/* Index of the frame within this code; `count`: there is none. */
static unsigned frame_of(const void *start, size_t bytes) {
    unsigned i = 0;
    while (i < count && !is_within(frames[i], start, bytes))
        i++;
    return i;
}

static HK_NOINLINE void run(char *code) {
    ((void (*)(void (*)(void)))(uintptr_t)code)(read_stack);
    __asm__ volatile("");
}

/* The stack has the made code and, if it keeps a frame, its caller. Twice: the second time the unwinder's first answer
 * is cached. */
static void check_stack(char *code, bool keeps_frame) {
    for (unsigned i = 0; i < 2; i++) {
        run(code);
        const unsigned made = frame_of(code, KEEPS_NONE);
        CHECK(made < count);
        if (keeps_frame)
            CHECK(made + 1 < count && is_within(frames[made + 1], (void *)run, 64));
    }
}

/* The stack ends at an address to which no code can return. */
static void check_plausible(char *code) {
    const uintptr_t nowhere[] = {0, 1, 4095, UINTPTR_MAX, (uintptr_t)1 << 46};
    for (unsigned i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++) {
        void *volatile frame[2] __attribute__((aligned(16))) = {NULL, (void *)nowhere[i]};
        read_stack(); /* replaces what was cached from the last stack */
        ((void (*)(void (*)(void), void *volatile *))(uintptr_t)(code + TAKES_IT))(read_stack,
                                                                                   frame);
        const unsigned made = frame_of(code + TAKES_IT, KEEPS_NONE);
        CHECK(made < count);
        CHECK_EQ(made + 1, count);
    }
}

/* An interrupted instruction is on the stack as its address plus one, like a return address: a reader that looks up the
 * byte before finds the interrupted instruction, not the one before it. */
extern const char trap[];

static void on_trap(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    read_stack();
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2; /* behind ud2 */
}

static void check_interrupted(void) {
    const struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGILL, &action, NULL) == 0);
    __asm__ volatile("trap: ud2" ::: "memory");
    CHECK(frame_of(trap, 8) < count);
    CHECK(frames[frame_of(trap, 8)] == trap + 1);
}

int main(void) {
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW);
    void (*enroll)(const void *) = NULL;
    if (library == NULL || dlsym(RTLD_DEFAULT, "_dl_find_object") == NULL)
        return unit_skip(
            "the C library does not tell what lies at an address (glibc < 2.35, musl)");
    *(void **)&enroll = dlsym(library, "__register_frame");
    char *code = make_code();
    registered.start = (uintptr_t)code;
    registered.bytes = sizeof instructions;
    CHECK(enroll != NULL && hk_stack_prepare());
    check_stack(code, true);
    check_stack(code + KEEPS_NONE, false);
    check_plausible(code);
    check_interrupted();
    enroll(&registered);
    check_stack(code, true);
    check_stack(code + KEEPS_NONE, false);
    return 0;
}

#else
int main(void) { return unit_skip("its code is that of x86-64"); }
#endif
