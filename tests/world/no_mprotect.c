// In a sandbox that has no mprotect the heap grows as it did: the flat page map is done without once the system lets
// no more of it be written to.
#include "pattern.h"
#include "process.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

// Of addresses that are more than those that any part of the map is about, but of little memory.
enum { LARGE = 600, SMALL = 20000 };

static void enter_sandbox(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        world_skip("seccomp filters are not permitted here");
}

static void grow_and_shrink(void) {
    static char *large[LARGE];
    static block_t *small[SMALL];
    for (size_t i = 0; i < LARGE; i++) {
        const size_t n = i % 2 == 0 ? MIB : 3 * MIB;
        CHECK((large[i] = malloc(n)) != NULL, "malloc(%zu), the %zuth: %s", n, i, strerror(errno));
        large[i][0] = large[i][n - 1] = (char)i;
    }
    for (size_t i = 0; i < SMALL; i++)
        small[i] = block_new(24 + i % 3000, i);
    for (size_t i = 0; i < SMALL; i++)
        block_delete(small[i]);
    for (size_t i = 0; i < LARGE; i++) {
        CHECK(large[i][0] == (char)i, "block %zu has changed", i);
        free(large[i]);
    }
}

int main(void) {
    world_begin(60);
    block_t *before = block_new(1000, 1);
    enter_sandbox();
    for (int i = 0; i < 3; i++)
        grow_and_shrink();
    block_delete(before);
    return 0;
}
