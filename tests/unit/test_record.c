/* A recording has each operation of a program once, in an order that can be replayed: with threads, after a fork,
 * after a kill, and up to the last operation for which the file had room. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "check.h"
#include "hakmem/hakmem.h"
#include "os/os.h"
#include "record/record.h"

enum { MARK = 54321, MANY = 20000, THREADS = 4, EACH = 6000, CHURN = 300, PAUSE_MS = 60 };

/* ---- the recorded programs ---- */

static void do_resize(void) {
    char *p = hak_malloc(MARK);
    p = hak_realloc(p, 3 * MARK);
    hak_free(p);
    p = hak_aligned_alloc(4096, MARK);
    hak_free(p);
}

static void do_many(void) {
    for (unsigned i = 0; i < MANY; i++)
        hak_free(hak_malloc(MARK));
}

/* Each thread frees blocks that the others have handed on. */
static _Atomic(void *) handed[THREADS];

static void *hand_on(void *argument) {
    const unsigned own = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < EACH; i++)
        hak_free(atomic_exchange(&handed[(own + i) % THREADS],
                                 hak_malloc(i % 4 != 0 ? 16 + i % 100 : 100000)));
    return NULL;
}

static void do_threads(void) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, hand_on, (void *)i) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void *do_little(void *unused) {
    hak_free(hak_malloc(MARK));
    return unused;
}

static void *do_more(void *unused) {
    for (unsigned i = 0; i < MANY; i++)
        hak_free(hak_malloc(MARK + 1));
    return unused;
}

/* CHURN short-lived threads, then a thread that needs more than one chunk. */
static void do_churn(void) {
    for (unsigned i = 0; i <= CHURN; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, i < CHURN ? do_little : do_more, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

/* Runs before hakmem's own handler: the child still has its parent's recording, and must not write to it. */
static void handle_in_child(void) {
    for (unsigned i = 0; i < 2; i++)
        hak_free(hak_malloc(MARK));
}

static void register_early(int argc, char **argv, char **envp) {
    (void)envp;
    if (argc == 2 && strcmp(argv[1], "fork") == 0)
        pthread_atfork(NULL, NULL, handle_in_child);
}
__attribute__((section(".preinit_array"),
               used)) static void (*const preinit)(int, char **, char **) = register_early;

static void do_fork(void) {
    hak_free(hak_malloc(10));
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        do_many();
        exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    printf("%d\n", pid);
}

/* A child made without fork handlers: its operations must not get into its parent's recording. */
static void do_clone(void) {
    do_many();
    const long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    CHECK(pid >= 0);
    if (pid == 0) {
        nanosleep(&(struct timespec){0, PAUSE_MS * 1000000L}, NULL);
        for (unsigned i = 0; i < 100; i++)
            hak_free(hak_malloc(MARK + 1));
        _exit(0);
    }
    int status;
    CHECK(waitpid((pid_t)pid, &status, 0) == pid && status == 0);
    do_many();
}

/* The file is full, and the count of operations comes near its end: 32 bits. */
static void do_lose(void) {
    for (unsigned i = 0; i < 3; i++)
        do_many();
    CHECK(hk_record_head->stopped < hk_record_head->operations);
    hk_store_relaxed(&hk_record_head->operations, (uint64_t)UINT32_MAX - 100);
    do_many();
}

static void do_pause(void) {
    hak_free(hak_malloc(MARK));
    nanosleep(&(struct timespec){0, PAUSE_MS * 1000000L}, NULL);
    hak_free(hak_malloc(MARK + 1));
}

static void do_kill(void) {
    do_many();
    raise(SIGKILL);
}

static const struct {
    const char *name;
    void (*run)(void);
} deeds[] = {{"resize", do_resize}, {"many", do_many},   {"threads", do_threads},
             {"fork", do_fork},     {"kill", do_kill},   {"churn", do_churn},
             {"pause", do_pause},   {"clone", do_clone}, {"lose", do_lose}};

/* ---- running them ---- */

static char folder[] = "/tmp/test_record_XXXXXX", path[256];
static const char *most_mb = "64";
static rlim_t largest_file = RLIM_INFINITY;
static child_t child;

static void start_recorded(void *name) {
    umask(0); /* only the owner may read the recording, whatever the umask */
    setenv("HAKMEM_RECORD", path, 1);
    setenv("HAKMEM_RECORD_MB", most_mb, 1);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &(struct rlimit){largest_file, RLIM_INFINITY}), 0);
    execl("/proc/self/exe", "test_record", name, (char *)NULL);
    _exit(3);
}

/* The path has no %p, so the process's number is appended. */
static void run_recorded(const char *deed) {
    snprintf(path, sizeof path, "%s/%s", folder, deed);
    child_run(&child, start_recorded, (void *)(uintptr_t)deed);
}

/* ---- reading the file ---- */

typedef struct {
    uint64_t address, size;
    unsigned kind, log2, thread;
    uint64_t ns; /* the latest time noted before it */
} event_t;

static struct {
    hk_record_head_t *head;
    event_t *events;       /* by number; kind 0: not there */
    uint64_t count, times; /* times: lines with a time, without chunks' first lines */
} got;

static void read_line(const hk_record_line_t *line, unsigned thread, uint64_t ns) {
    const uint64_t where = line->where, what = line->what, number = (uint32_t)what;
    if (where >> 48 == 0 || number >= got.count)
        return;
    CHECK_EQ(got.events[number].kind, 0); /* no number twice */
    got.events[number] = (event_t){where & 0xffffffffffff,
                                   what >> 32 | where >> 56 << 32,
                                   (unsigned)(where >> 48 & 7),
                                   (unsigned)(where >> 51 & 31),
                                   thread,
                                   ns};
}

static void read_file(const char *name) {
    struct stat there;
    const int fd = open(name, O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &there) == 0);
    CHECK_EQ(there.st_mode & 0777, 0600);
    const size_t bytes = (size_t)there.st_size;
    char *file = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(file != MAP_FAILED);
    close(fd);
    got.head = (hk_record_head_t *)(void *)file;
    CHECK_EQ(got.head->magic, HK_RECORD_MAGIC);
    got.times = 0;
    got.count = got.head->stopped < got.head->operations ? got.head->stopped : got.head->operations;
    got.events = mmap(NULL, (got.count + 1) * sizeof *got.events, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t at = HK_RECORD_CHUNK; at + HK_RECORD_CHUNK <= bytes; at += HK_RECORD_CHUNK) {
        const hk_record_line_t *lines = (const hk_record_line_t *)(const void *)(file + at);
        const hk_record_line_t *said = lines;
        for (unsigned i = 1; i < HK_RECORD_CHUNK / sizeof *lines && lines->where != 0; i++)
            if ((lines[i].where >> 48 & 7) == HK_RECORD_THREAD) {
                said = &lines[i];
                got.times++;
            } else {
                read_line(&lines[i], (unsigned)said->where, said->what);
            }
    }
}

/* Reads the only recording of `deed` but that of process `other`, and removes it. */
static void read_recording(const char *deed, pid_t other) {
    char name[512], command[600], not_that[64] = "";
    if (other != 0)
        snprintf(not_that, sizeof not_that, " | grep -v '[.]%d$'", other);
    snprintf(command, sizeof command, "ls %s/%s.*%s", folder, deed, not_that);
    FILE *list = popen(command, "r");
    CHECK(list != NULL && fgets(name, sizeof name, list) != NULL);
    pclose(list);
    name[strcspn(name, "\n")] = '\0';
    read_file(name);
    CHECK(unlink(name) == 0);
}

static uint64_t count_of(uint64_t size) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < got.count; i++)
        found += got.events[i].kind == HK_RECORD_GIVEN && got.events[i].size == size;
    return found;
}

/* No operation is missing, and for each address `given` and `taken` alternate. */
static void check_order(void) {
    enum { PLACES = 1 << 20 };
    static uint64_t in_use[PLACES];
    memset(in_use, 0, sizeof in_use);
    for (uint64_t i = 0; i < got.count; i++) {
        const event_t *e = &got.events[i];
        CHECK(e->kind != 0);
        uint64_t at = e->address * UINT64_C(0x9e3779b97f4a7c15) >> 44;
        while (in_use[at] >> 1 != e->address && in_use[at] != 0)
            at = (at + 1) % PLACES;
        const bool given = (e->kind & HK_RECORD_GIVEN) != 0;
        if (in_use[at] != 0)
            CHECK(given == !(in_use[at] & 1));
        in_use[at] = e->address << 1 | given;
    }
}

/* ---- the tests ---- */

static void test_resize(void) {
    run_recorded("resize");
    CHECK_EQ(child.status, 0);
    CHECK_TEXT(child.text, "");
    read_recording("resize", 0);
    check_order();
    CHECK(got.head->end_ns > got.head->begin_ns);
    CHECK_EQ(count_of(MARK), 2);
    uint64_t i = 0;
    while (got.events[i].size != MARK)
        i++;
    const event_t *e = &got.events[i];
    CHECK_EQ(e[0].kind, HK_RECORD_GIVEN);
    CHECK_EQ(e[0].log2, 3);
    CHECK_EQ(e[1].kind, HK_RECORD_TAKEN | HK_RECORD_RESIZED);
    CHECK_EQ(e[1].address, e[0].address);
    CHECK_EQ(e[2].kind, HK_RECORD_GIVEN | HK_RECORD_RESIZED);
    CHECK_EQ(e[2].size, 3 * MARK);
    CHECK_EQ(e[3].kind, HK_RECORD_TAKEN);
    CHECK_EQ(e[3].address, e[2].address);
    CHECK_EQ(e[4].log2, 12);
    CHECK_EQ(e[4].address % 4096, 0);
}

static void test_threads(void) {
    run_recorded("threads");
    CHECK_EQ(child.status, 0);
    read_recording("threads", 0);
    check_order();
    CHECK(got.count >= THREADS * (2 * EACH - 1));
    unsigned of[64] = {0};
    for (uint64_t i = 0; i < got.count; i++)
        of[got.events[i].thread % 64]++;
    unsigned busy = 0;
    for (unsigned i = 0; i < 64; i++)
        busy += of[i] >= EACH;
    CHECK_EQ(busy, THREADS);
}

/* Threads that run one after the other share chunks, and are told apart in them. */
static void test_churn(void) {
    run_recorded("churn");
    CHECK_EQ(child.status, 0);
    read_recording("churn", 0);
    check_order();
    CHECK_EQ(count_of(MARK), CHURN);
    CHECK(got.head->chunks < 10 + 2 * MANY / 2047);
    bool seen[CHURN + 8] = {false};
    unsigned last = 0;
    for (uint64_t i = 0; i < got.count; i++) {
        const event_t *e = &got.events[i];
        CHECK(e->thread < CHURN + 8);
        if (e->size == MARK + 1)
            last = last != 0 ? last : e->thread;
        if (e->size == MARK + 1)
            CHECK_EQ(e->thread, last);
        if (e->size == MARK)
            CHECK(!seen[e->thread]);
        seen[e->thread] |= e->size == MARK;
    }
    CHECK(last != 0 && !seen[last]);
}

static const event_t *given(uint64_t size) {
    uint64_t i = 0;
    while (i < got.count && (got.events[i].kind != HK_RECORD_GIVEN || got.events[i].size != size))
        i++;
    CHECK(i < got.count);
    return &got.events[i];
}

/* The first operation after a pause has a time of its own; an operation right behind another one has none. */
static void test_pause(void) {
    run_recorded("pause");
    CHECK_EQ(child.status, 0);
    read_recording("pause", 0);
    check_order();
    CHECK(given(MARK + 1)->ns - given(MARK)->ns >= PAUSE_MS * UINT64_C(1000000));
    CHECK(given(MARK)->ns >= got.head->begin_ns && given(MARK + 1)->ns <= got.head->end_ns);
    CHECK(got.times < got.count);
}

static void test_fork(void) {
    run_recorded("fork");
    CHECK_EQ(child.status, 0);
    const pid_t forked = (pid_t)atoi(child.text);
    read_recording("fork", forked);
    check_order();
    CHECK_EQ(count_of(10), 1);
    CHECK_EQ(count_of(MARK), 0);
    char name[512];
    snprintf(name, sizeof name, "%s/fork.%d", folder, forked);
    read_file(name);
    check_order();
    CHECK_EQ(got.head->pid, forked);
    CHECK_EQ(count_of(MARK), MANY);
}

static void test_clone(void) {
    run_recorded("clone");
    CHECK_EQ(child.status, 0);
    read_recording("clone", 0);
    check_order();
    CHECK_EQ(count_of(MARK), 2 * MANY);
    CHECK_EQ(count_of(MARK + 1), 0);
}

/* The count of operations stops before its 32 bits wrap around, so no lost operation gets a kept one's number. */
static void test_lost(void) {
    run_recorded("lose");
    CHECK_EQ(child.status, 0);
    read_recording("lose", 0);
    CHECK_EQ(got.head->operations, (uint64_t)UINT32_MAX - 100);
}

static void test_kill(void) {
    run_recorded("kill");
    CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGKILL);
    read_recording("kill", 0);
    check_order();
    CHECK_EQ(got.head->end_ns, 0);
    CHECK_EQ(count_of(MARK), MANY);
}

/* 1 MiB has room for 31 chunks, fewer lines than three do_many() need: the file becomes full, and one warning says so. */
static void test_full(void) {
    run_recorded("many");
    CHECK_EQ(child.status, 0);
    static const char *const line =
        "the file is full (HAKMEM_RECORD_MB); what follows is not recorded\n";
    const char *said = strstr(child.text, line);
    CHECK(said != NULL && strcmp(said, line) == 0);
    CHECK(strchr(child.text, '\n') == child.text + strlen(child.text) - 1);
    read_recording("many", 0);
    check_order();
    CHECK(got.head->stopped < got.head->operations + 1);
    CHECK(got.head->end_ns != 0);
    CHECK_EQ(got.count + got.times, 31 * (HK_RECORD_CHUNK / sizeof(hk_record_line_t) - 1));
}

static void test_bad_path(const char *name, const char *why) {
    char expected[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    child_run(&child, start_recorded, (void *)(uintptr_t) "resize");
    CHECK_EQ(child.status, 0);
    snprintf(expected, sizeof expected,
             "hakmem: warning: HAKMEM_RECORD=%s: %s; nothing is recorded\n", path, why);
    CHECK_TEXT(child.text, expected);
}

/* A file that cannot be mapped: the error is returned, errno is unchanged. */
static void test_no_mapping(void) {
    const int fd = eventfd(0, 0);
    void *p = hk_os_fence(hk_os_page_size(), hk_os_page_size());
    CHECK(fd >= 0 && p != NULL);
    errno = 77;
    CHECK_EQ(hk_os_map_file(p, hk_os_page_size(), fd, 0), ENODEV);
    CHECK(errno == 77 && close(fd) == 0);
}

int main(int argc, char **argv) {
    for (unsigned i = 0; argc > 1 && i < sizeof deeds / sizeof deeds[0]; i++)
        if (strcmp(argv[1], deeds[i].name) == 0) {
            for (unsigned n = 0; n < (deeds[i].run == do_many ? 3 : 1); n++)
                deeds[i].run();
            return 0;
        }
    CHECK(mkdtemp(folder) != NULL);
    if (hk_os_page_size() > HK_RECORD_CHUNK) {
        run_recorded("resize");
        CHECK_EQ(child.status, 0);
        CHECK(strstr(child.text, "larger than its chunks; nothing is recorded") != NULL);
        CHECK(rmdir(folder) == 0);
        return 0;
    }
    test_no_mapping();
    test_resize();
    test_threads();
    test_churn();
    test_pause();
    test_fork();
    test_clone();
    test_kill();
    most_mb = "1";
    test_lost();
    test_full();
    most_mb = "64";
    largest_file = HK_MIB + 5;
    test_full();
    if (!is_emulated("a limit on files that the emulator is under as well")) {
        largest_file = 5;
        test_bad_path("resize", "File too large");
    }
    largest_file = RLIM_INFINITY;
    test_bad_path("none/file", "No such file or directory");
    char command[512];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_EQ(system(command), 0);
    return 0;
}
