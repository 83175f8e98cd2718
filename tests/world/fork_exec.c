// vfork, posix_spawn, system, popen and exec from a thread, while other threads allocate. The new
// program is this one again, so it proves that it too runs on the allocator under test.
#include "churn.h"
#include "process.h"

#include <spawn.h>

enum { ROUNDS = 20, THREADS = 2 };

extern char **environ;
static char self[4096];
static char *const child_argv[] = {self, (char *)"child", NULL};

static int be_child(void) {
    uint64_t rng = 1;
    for (int i = 0; i < 2000; i++)
        churn_step(&rng);
    churn_free_slots();
    return puts("child ran") < 0;
}

static void by_vfork(void) {
    pid_t child = vfork();
    CHECK(child >= 0, "vfork: %s", strerror(errno));
    if (child == 0) {
        execv(self, child_argv);
        _exit(126);
    }
    CHECK_CHILD_OK(child, "vfork and exec");
}

static void by_posix_spawn(void) {
    pid_t child;
    posix_spawn_file_actions_t actions;
    CHECK(posix_spawn_file_actions_init(&actions) == 0, "posix_spawn_file_actions_init");
    CHECK(posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) == 0, "addopen");
    int err = posix_spawn(&child, self, &actions, NULL, child_argv, environ);
    CHECK(err == 0, "posix_spawn: %s", strerror(err));
    posix_spawn_file_actions_destroy(&actions);
    CHECK_CHILD_OK(child, "posix_spawn");
}

static void by_popen(void) {
    char command[sizeof self + 20], line[64] = "";
    snprintf(command, sizeof command, "%s child", self);
    FILE *child = popen(command, "r");
    CHECK(child != NULL && fgets(line, sizeof line, child) != NULL, "popen");
    CHECK(pclose(child) == 0 && strcmp(line, "child ran\n") == 0, "the child said %s", line);
    CHECK(system("true") == 0, "system");
}

static void *exec_in_thread(void *unused) {
    (void)unused;
    execv(self, child_argv);
    _exit(126);
}

// exec from a thread ends all others at any point of their work.
static void by_thread(void) {
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        watchdog(20);
        pthread_t id;
        churn_start(1);
        CHECK(pthread_create(&id, NULL, exec_in_thread, NULL) == 0, "pthread_create");
        pause();
    }
    CHECK_CHILD_OK(child, "exec from a thread");
}

int main(int argc, char **argv) {
    (void)argv;
    world_begin(60);
    if (argc > 1)
        return be_child();
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "/proc/self/exe");
    churn_start(THREADS);
    for (int i = 0; i < ROUNDS; i++) {
        by_vfork();
        by_posix_spawn();
        by_popen();
        by_thread();
    }
    churn_finish(THREADS);
    return 0;
}
