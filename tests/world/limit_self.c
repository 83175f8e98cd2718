// limit_self: a process that lowers the limit on its own address space has what it would have with the C library: its
// own mappings and threads fit beside the heap, whichever function sets the limit, with other threads at work and in the
// child of a fork, or of a clone that the C library knows nothing of. A limit far away changes nothing; what is refused is refused as by the system.
// limit_self first|few|cloned: the same where that is the first thing it does, or nearly.
#include "process.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define GIB ((rlim_t)1 << 30)
enum { THREADS = 3, BLOCKS = 100, BLOCK = 100000 };

typedef int setter_t(const struct rlimit *limit);

static int by_setrlimit(const struct rlimit *limit) { return setrlimit(RLIMIT_AS, limit); }
static int by_prlimit(const struct rlimit *limit) { return prlimit(0, RLIMIT_AS, limit, NULL); }
static int by_prlimit_of_own(const struct rlimit *limit) {
    return prlimit(getpid(), RLIMIT_AS, limit, NULL);
}

// The old limit comes where the new one was.
static int by_exchange(const struct rlimit *limit) {
    struct rlimit both = *limit, before;
    CHECK(getrlimit(RLIMIT_AS, &before) == 0, "getrlimit");
    const int result = prlimit(0, RLIMIT_AS, &both, &both);
    CHECK(both.rlim_cur == before.rlim_cur && both.rlim_max == before.rlim_max, "no old limit");
    return result;
}

#ifdef __GLIBC__
static int by_setrlimit64(const struct rlimit *limit) {
    return setrlimit64(RLIMIT_AS, &(struct rlimit64){limit->rlim_cur, limit->rlim_max});
}
static int by_prlimit64(const struct rlimit *limit) {
    return prlimit64(0, RLIMIT_AS, &(struct rlimit64){limit->rlim_cur, limit->rlim_max}, NULL);
}
#endif

static setter_t *const setters[] = {
    by_setrlimit,   by_prlimit,   by_prlimit_of_own, by_exchange,
#ifdef __GLIBC__
    by_setrlimit64, by_prlimit64,
#endif
};
enum { SETTERS = sizeof setters / sizeof *setters };

static size_t mapped(void) {
    char text[128];
    unsigned long pages = 0;
    read_file("/proc/self/statm", text, sizeof text);
    CHECK(sscanf(text, "%lu", &pages) == 1, "/proc/self/statm");
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void limit_to(setter_t *set, rlim_t bytes) {
    errno = 0;
    CHECK(set(&(struct rlimit){bytes, RLIM_INFINITY}) == 0 && errno == 0, "%s", strerror(errno));
    struct rlimit is;
    CHECK(syscall(SYS_prlimit64, 0, RLIMIT_AS, NULL, &is) == 0 && is.rlim_cur == bytes,
          "the limit is not what was set");
}

static void *nothing(void *unused) { return unused; }

// No malloc before these, which might have the same effect.
static void has_room(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED, "mmap of %zu MiB: %s", bytes / MIB, strerror(errno));
    pthread_t thread;
    const int error = pthread_create(&thread, NULL, nothing, NULL);
    CHECK(error == 0, "pthread_create: %s", strerror(error));
    CHECK(pthread_join(thread, NULL) == 0 && munmap(p, bytes) == 0, "join and munmap");
}

static unsigned char *blocks[BLOCKS];

static void allocate(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = malloc(BLOCK - i)) != NULL, "malloc");
        memset(blocks[i], (int)i, BLOCK - i);
    }
}

static void check_and_free(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(blocks[i][0] == i && blocks[i][BLOCK - 1 - i] == i, "block %zu has changed", i);
        free(blocks[i]);
    }
}

static atomic_bool stop;
static atomic_uint at_work;

static void *work(void *unused) {
    enum { HELD = 64 };
    unsigned char *held[HELD] = {0};
    for (size_t i = 0; !atomic_load(&stop); i++) {
        free(held[i % HELD]);
        CHECK((held[i % HELD] = malloc(1 + i * 61 % 3000)) != NULL, "malloc");
        if (i == HELD)
            atomic_fetch_add(&at_work, 1);
    }
    for (size_t i = 0; i < HELD; i++)
        free(held[i]);
    return unused;
}

static int be_limited(setter_t *set, unsigned threads, rlim_t limit, size_t room) {
    pthread_t workers[THREADS];
    allocate();
    for (unsigned i = 0; i < threads; i++)
        CHECK(pthread_create(&workers[i], NULL, work, NULL) == 0, "pthread_create");
    while (atomic_load(&at_work) < threads)
        usleep(100);
    limit_to(set, limit);
    has_room(room);
    check_and_free();
    atomic_store(&stop, true);
    for (unsigned i = 0; i < threads; i++)
        CHECK(pthread_join(workers[i], NULL) == 0, "pthread_join");
    allocate();
    check_and_free();
    return 0;
}

// A fresh thread, which has never allocated, sets the limit.
static void *set_in_thread(void *unused) {
    limit_to(by_setrlimit, GIB);
    return unused;
}

static int be_limited_by_thread(void) {
    pthread_t thread;
    allocate();
    CHECK(pthread_create(&thread, NULL, set_in_thread, NULL) == 0, "pthread_create");
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    has_room(100 * MIB);
    check_and_free();
    return 0;
}

// A child between fork and exec, while other threads of the parent are at work. (exit would wait for them.)
static int be_limited_in_forks(void) {
    enum { FORKS = 30 };
    pthread_t workers[THREADS];
    allocate();
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&workers[i], NULL, work, NULL) == 0, "pthread_create");
    for (unsigned i = 0; i < FORKS; i++) {
        const pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0) {
            limit_to(setters[i % SETTERS], GIB);
            has_room(100 * MIB);
            check_and_free();
            _exit(0);
        }
        CHECK_CHILD_OK(child, "between fork and exec");
    }
    check_and_free();
    _exit(0);
}

// Somebody else's limit, one that is far, and one that is none: nothing is given up.
static int keep_what_is_there(void) {
    allocate();
    const pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0)
        for (;;)
            pause();
    const size_t before = mapped();
    const struct rlimit tight = {GIB, RLIM_INFINITY};
    CHECK(prlimit(child, RLIMIT_AS, &tight, NULL) == 0, "prlimit of a child");
    CHECK(kill(child, SIGKILL) == 0 && WIFSIGNALED(process_wait(child)), "kill");
    CHECK(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0, "another limit");
    limit_to(by_setrlimit, 64 * GIB);
    limit_to(by_setrlimit, RLIM_INFINITY);
    const size_t now = mapped();
    CHECK_OURS(now + GIB > before, "%zu MiB of addresses were given up", (before - now) / MIB);
    check_and_free();
    return 0;
}

// The child of vfork has its parent's memory, and limits nobody but itself.
static int keep_beside_a_vfork(void) {
    allocate();
    const size_t before = mapped();
    const pid_t child = vfork();
    CHECK(child >= 0, "vfork");
    if (child == 0)
        _exit(setrlimit(RLIMIT_AS, &(struct rlimit){100 * MIB, RLIM_INFINITY}) == 0 ? 0 : 1);
    CHECK_CHILD_OK(child, "vfork");
    check_and_free();
    allocate();
    const size_t now = mapped();
    CHECK_OURS(now + GIB > before, "%zu MiB of addresses were given up", (before - now) / MIB);
    check_and_free();
    return 0;
}

// So much of what is left of its data is to be had.
static int be_limited_in_data(void) {
    enum { MOST = 4096, EACH = 1000 };
    static void *got[MOST];
    size_t n = 0, used = 0;
    char line[128];
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && used == 0 && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "VmData:", 7) == 0)
            used = strtoul(line + 7, NULL, 10) * 1024;
    CHECK(used != 0 && fclose(status) == 0, "/proc/self/status");
    CHECK(setrlimit(RLIMIT_DATA, &(struct rlimit){used + 3 * MIB / 2, RLIM_INFINITY}) == 0, "set");
    while (n < MOST && (got[n] = malloc(EACH)) != NULL)
        n++;
    // What is left of what it has is less than 2 MiB.
    CHECK_OURS(n * EACH > 2 * MIB, "%zu bytes", n * EACH);
    while (n != 0)
        free(got[--n]);
    return 0;
}

static int be_refused(void) {
    const struct rlimit upside_down = {2, 1}, *volatile nowhere = (const struct rlimit *)8;
    struct rlimit is;
    const pid_t nobody = 0x7ffffff0;
    errno = 0;
    CHECK(setrlimit(RLIMIT_AS, &upside_down) == -1 && errno == EINVAL, "EINVAL of setrlimit");
    errno = 0;
    CHECK(setrlimit((__typeof__(RLIMIT_AS))1000, &upside_down) == -1 && errno == EINVAL, "what");
    errno = 0;
    CHECK(prlimit(0, RLIMIT_AS, &upside_down, NULL) == -1 && errno == EINVAL, "EINVAL of prlimit");
    errno = 0;
    CHECK(prlimit(nobody, RLIMIT_AS, NULL, &is) == -1 && errno == ESRCH, "ESRCH of prlimit");
    errno = 0;
    CHECK(setrlimit(RLIMIT_AS, nowhere) == -1 && errno == EFAULT, "EFAULT of setrlimit");
    errno = 0;
    CHECK(prlimit(0, RLIMIT_AS, NULL, &is) == 0 && errno == 0, "to read it");
    CHECK(is.rlim_max >= is.rlim_cur, "a limit");
    return 0;
}

typedef int part_t(void);

static void in_child(part_t *part, const char *what) {
    const pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0)
        _exit(part());
    CHECK_CHILD_OK(child, what);
}

static setter_t *set;
static int alone(void) { return be_limited(set, 0, GIB, 100 * MIB); }
static int alone_and_little(void) { return be_limited(set, 0, 200 * MIB, 50 * MIB); }
static int alone_and_more(void) { return be_limited(set, 0, 4 * GIB, 3000 * MIB); }
static int with_threads(void) { return be_limited(set, THREADS, GIB, 100 * MIB); }

static int run_again(char **argv, const char *how) {
    const pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        execl("/proc/self/exe", argv[0], how, (char *)NULL);
        _exit(126);
    }
    CHECK_CHILD_OK(child, how);
    return 0;
}

// So much that the flat map would still fit, beside which the mapping would not.
static int be_first(void) {
    limit_to(by_setrlimit, 3 * GIB);
    free(malloc(1));
    has_room(2000 * MIB);
    return 0;
}

static int be_few(void) {
    free(malloc(100));
    limit_to(by_setrlimit, 200 * MIB);
    has_room(100 * MIB);
    return 0;
}

// The C library takes the child for its parent, as it does that of vfork. Where the system may not be asked whose memory it
// has (a container's filter), hakmem keeps what it has, as the pages say.
static int be_cloned(void) {
    enum { MEMORY = 1 };
    if (syscall(SYS_kcmp, getpid(), getpid(), MEMORY, 0, 0) < 0) {
        world_say("kcmp: %s: no clone was tried", strerror(errno));
        return 0;
    }
    free(malloc(100));
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    CHECK(child >= 0, "clone");
    if (child == 0) {
        limit_to(by_setrlimit, 200 * MIB);
        void *p = mmap(NULL, 100 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        _exit(p == MAP_FAILED ? 1 : 0);
    }
    CHECK_CHILD_OK(child, "a clone");
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "cloned") == 0)
        return be_cloned();
    if (argc == 2)
        return strcmp(argv[1], "first") == 0 ? be_first() : be_few();
    world_begin(60);
    for (size_t i = 0; i < SETTERS; i++) {
        set = setters[i];
        in_child(alone, "alone");
        in_child(alone_and_little, "200 MiB");
        in_child(alone_and_more, "4 GiB");
        in_child(with_threads, "with threads");
    }
    in_child(be_limited_by_thread, "by a thread");
    in_child(be_limited_in_forks, "in forks");
    in_child(keep_what_is_there, "a limit far away");
    in_child(keep_beside_a_vfork, "beside a vfork");
    in_child(be_limited_in_data, "a limit on data");
    in_child(be_refused, "refusals");
    run_again(argv, "first");
    run_again(argv, "few");
    run_again(argv, "cloned");
    return 0;
}
