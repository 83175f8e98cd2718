// Under strict overcommit accounting a process gets a GiB in blocks of any size, as on glibc.
#include "limits.h"

#include <fcntl.h>

static const char setting[] = "/proc/sys/vm/overcommit_memory";

static bool set(char value) {
    int fd = open(setting, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, &value, 1) == 1;
    return (fd < 0 || close(fd) == 0) && written;
}

// A process outside our group that puts the setting back once nobody holds the pipe, however all
// the others ended.
static pid_t keeper(char before, int held[2]) {
    NEED(pipe2(held, O_CLOEXEC) == 0, "pipe");
    pid_t pid = fork();
    NEED(pid >= 0, "fork");
    if (pid == 0) {
        char nothing;
        setsid();
        close(held[1]);
        ssize_t end_of_file = read(held[0], &nothing, 1);
        _exit(end_of_file == 0 && set(before) ? 0 : 1);
    }
    close(held[0]);
    return pid;
}

int main(int argc, char **argv) {
    const char *kind = begin(argc, argv);
    int held[2], fd = open(setting, O_RDONLY | O_CLOEXEC);
    char before = 0;
    if (kind != NULL)
        answer(usable_in(kind, 1024 * MIB));
    if (fast)
        CANNOT_CHECK("it changes a setting of the whole machine: not with --fast");
    if (geteuid() != 0 || read(fd, &before, 1) != 1)
        CANNOT_CHECK("only root can change %s", setting);
    pid_t restorer = keeper(before, held), checker = fork();
    NEED(checker >= 0, "fork");
    if (checker == 0) {
        if (!set('2'))
            CANNOT_CHECK("%s cannot be changed", setting);
        keeps_usable((again_t){0}, "vm.overcommit_memory 2");
        _exit(0);
    }
    int status = wait_for(checker);
    close(held[1]);
    if (wait_for(restorer) != 0)
        fprintf(stderr, "%s could not be set back to %c\n", setting, before);
    must_end_well(status, "the check");
    return 0;
}
