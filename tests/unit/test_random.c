/* Random numbers while the system refuses getrandom(): they differ, and do not reveal the random bytes that the process
 * got at its start (AT_RANDOM). */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "check.h"
#include "os/os.h"

static struct sock_filter rules[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static uint64_t clock_now(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Whether number ^ secret is a time between then and now: then the number would reveal the secret. */
static bool says(uint64_t number, uint64_t secret, uint64_t then) {
    return (number ^ secret) - then <= clock_now() - then;
}

int main(void) {
    enum { NUMBERS = 100 };
    const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    uint64_t numbers[NUMBERS], secrets[2];
    CHECK(hk_os_random() != hk_os_random());
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return unit_skip("the system has no filter for its calls");
    CHECK(syscall(SYS_getrandom, numbers, sizeof numbers, 0) == -1 && errno == ENOSYS);
    memcpy(secrets, (const char *)getauxval(AT_RANDOM), sizeof secrets);
    for (unsigned i = 0; i < NUMBERS; i++) {
        const uint64_t then = clock_now();
        errno = 0;
        numbers[i] = hk_os_random();
        CHECK(errno == 0);
        CHECK(!says(numbers[i], 0, then));
        CHECK(!says(numbers[i], secrets[0], then) && !says(numbers[i], secrets[1], then));
        for (unsigned j = 0; j < i; j++)
            CHECK(numbers[j] != numbers[i]);
    }
    return 0;
}
