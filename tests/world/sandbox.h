// A sandbox that answers one call of the system.
#pragma once

#include "check.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

// From now on the call has that answer (SECCOMP_RET_ERRNO | EPERM, say), for good. Skips the test where filters are not permitted.
static inline void sandbox_answers(unsigned call, unsigned answer) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        world_skip("seccomp filters are not permitted here");
}

static inline void sandbox_without(unsigned call) {
    sandbox_answers(call, SECCOMP_RET_ERRNO | EPERM);
}
