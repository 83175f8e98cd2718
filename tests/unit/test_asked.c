/* Files that the process writes about itself: their names, what they replace, the numbers that they
 * get in children, and the signals that ask for them. */
#include "api/asked.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/lock.h"
#include "check.h"
#include "hakmem/hakmem.h"

enum { NOBODY = 65534 };

static char folder[] = "/tmp/test_asked.XXXXXX";
static child_t child;

static const char *in_folder(const char *name) {
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put_text(const char *path, const char *text) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static void check_file(const char *path, const char *expected) {
    char text[64] = "";
    const int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) >= 0 && close(fd) == 0);
    CHECK_TEXT(text, expected);
}

static unsigned files_in(const char *path) {
    unsigned n = 0;
    DIR *all = opendir(path);
    CHECK(all != NULL);
    for (struct dirent *one; (one = readdir(all)) != NULL;)
        n += one->d_name[0] != '.';
    closedir(all);
    return n;
}

static void run(void (*fn)(void *)) {
    child_run(&child, fn, NULL);
    CHECK_TEXT(child.text, "");
    CHECK(WIFEXITED(child.status));
    CHECK_EQ(WEXITSTATUS(child.status), 0);
}

static int emit(int fd, const void *text) { return hk_write_all(fd, text, strlen(text)); }

static int write_file_for(unsigned mode, const char *path, const char *text) {
    hk_line_t line = {0};
    hk_line_str(&line, path);
    hk_line_text(&line);
    return hk_asked_file(&line, mode, emit, text);
}

static int write_file(const char *path, const char *text) {
    return write_file_for(HK_FOR_ALL, path, text);
}

/* ---- what a file replaces ---- */

static ino_t number_of(const char *path) {
    struct stat file;
    CHECK(stat(path, &file) == 0);
    return file.st_ino;
}

/* A file is replaced, not overwritten: a reader that has it open keeps the old one. */
static void replaces(void *unused) {
    const char *path = in_folder("file");
    (void)unused;
    put_text(path, "what was there before");
    const int older = open(path, O_RDONLY);
    CHECK_EQ(write_file(path, "new"), 0);
    check_file(path, "new");
    struct stat was;
    CHECK(fstat(older, &was) == 0 && was.st_ino != number_of(path));
    CHECK_EQ(files_in(folder), 1);
}

/* The folder is not writable, the file is: it must be overwritten in place. A file for the user only
 * must never be: that is an error. */
static void writes_in_place(void *unused) {
    const char *path = in_folder("file");
    (void)unused;
    put_text(path, "what was there before");
    const ino_t number = number_of(path);
    CHECK(chown(path, geteuid() == 0 ? NOBODY : geteuid(), (gid_t)-1) == 0);
    CHECK(chmod(folder, 0555) == 0);
    if (geteuid() == 0)
        CHECK(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
    CHECK_EQ(write_file(path, "new"), 0);
    check_file(path, "new");
    CHECK_EQ(number_of(path), number);
    CHECK_EQ(files_in(folder), 1);
    CHECK_EQ(write_file(in_folder("none"), "new"), EACCES);
    CHECK_EQ(write_file_for(HK_FOR_THE_USER, in_folder("file"), "newer"), EACCES);
    check_file(in_folder("file"), "new");
}

static void check_mode(const char *path, mode_t expected) {
    struct stat file;
    CHECK(lstat(path, &file) == 0);
    CHECK_EQ(file.st_mode, S_IFREG | expected);
}

/* Modes of new files. A link is written through for HK_FOR_ALL; for HK_FOR_THE_USER it must be
 * replaced, or it could lead the data into another user's file. */
static void has_its_mode(void *unused) {
    (void)unused;
    umask(0);
    unlink(in_folder("file"));
    CHECK(symlink("other", in_folder("file")) == 0);
    CHECK_EQ(write_file(in_folder("file"), "new"), 0);
    check_mode(in_folder("other"), 0644);
    CHECK_EQ(write_file_for(HK_FOR_THE_USER, in_folder("file"), "newer"), 0);
    check_mode(in_folder("file"), 0600);
    check_file(in_folder("file"), "newer");
    check_file(in_folder("other"), "new");
    CHECK_EQ(write_file(in_folder("file"), "for all"), 0);
    check_mode(in_folder("file"), 0644);
    CHECK(unlink(in_folder("other")) == 0);
    CHECK(mkfifo(in_folder("pipe"), 0666) == 0);
    CHECK_EQ(write_file_for(HK_FOR_THE_USER, in_folder("pipe"), "new"), 0);
    check_mode(in_folder("pipe"), 0600);
    CHECK(unlink(in_folder("pipe")) == 0);
}

/* A file that is a mount point cannot be replaced: it must be written to. */
static void writes_to_a_mount(void *unused) {
    (void)unused;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        dprintf(STDOUT_FILENO, "no mounts\n");
        return;
    }
    put_text(in_folder("source"), "what was there before");
    put_text(in_folder("file"), "");
    char source[PATH_MAX];
    strcpy(source, in_folder("source"));
    CHECK(mount(source, in_folder("file"), NULL, MS_BIND, NULL) == 0);
    CHECK_EQ(write_file(in_folder("file"), "new"), 0);
    check_file(source, "new");
    CHECK_EQ(files_in(folder), 2);
}

static void in_whose_place(void) {
    run(replaces);
    run(writes_in_place);
    CHECK(chmod(folder, 0755) == 0);
    run(has_its_mode);
    child_run(&child, writes_to_a_mount, NULL);
    CHECK(child.status == 0);
    if (child.text[0] != '\0')
        dprintf(STDERR_FILENO, "SKIPPED: a file that is a mount: %s", child.text);
    unlink(in_folder("source"));
    CHECK(unlink(in_folder("file")) == 0);
}

/* ---- numbers: of descriptors, and in names ---- */

static int emit_above(int fd, const void *text) {
    return fd > STDERR_FILENO && fcntl(fd, F_GETFD) == FD_CLOEXEC ? emit(fd, text) : EBADF;
}

/* In a process that has closed descriptors 0 to 2, the file must be written through a higher one; if none
 * is available, writing fails. */
static void leaves_numbers_alone(void *unused) {
    (void)unused;
    hk_line_t line = {0};
    hk_line_str(&line, in_folder("file"));
    hk_line_text(&line);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    for (unsigned i = 0; i < 2; i++)
        if (hk_asked_file(&line, HK_FOR_ALL, emit_above, "new") != 0)
            _exit(2);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            _exit(3);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, 3}); /* no higher descriptors are available */
    if (hk_asked_file(&line, HK_FOR_ALL, emit_above, "newer") == 0 || fcntl(0, F_GETFD) >= 0)
        _exit(4);
}

static void check_number(const char *pattern, bool numbered) {
    char expected[PATH_MAX + 16];
    hk_line_t line = {0};
    CHECK(hk_asked_path(&line, pattern));
    snprintf(expected, sizeof expected, numbered ? "%s.%d" : "%s", pattern, getpid());
    CHECK_TEXT(line.text, expected);
}

/* In a forked child, a path gets the child's number, unless it is a pipe or device, to which several
 * processes may write in turn. */
static void numbers_files(void *unused) {
    (void)unused;
    put_text(in_folder("file"), "");
    CHECK(symlink("file", in_folder("link")) == 0 && mkfifo(in_folder("pipe"), 0600) == 0);
    check_number(in_folder("none"), true);
    check_number(in_folder("file"), true);
    check_number(in_folder("link"), true);
    check_number(folder, true);
    check_number(in_folder("pipe"), false);
    CHECK(chdir(folder) == 0);
    hk_path_keep("pipe");
    CHECK(chdir("/") == 0);
    hk_line_t line = {0};
    CHECK(hk_asked_path(&line, "pipe"));
    CHECK_TEXT(line.text, in_folder("pipe"));
    check_number("/dev/null", false);
    check_number("/dev/stderr", false);
    CHECK(dup2(open(in_folder("file"), O_WRONLY), STDOUT_FILENO) == STDOUT_FILENO);
    check_number("/dev/stdout", false);
    check_number(in_folder("file"), true);
    CHECK(unlink(in_folder("link")) == 0 && unlink(in_folder("pipe")) == 0);
}

static void with_which_number(void) {
    run(numbers_files);
    run(leaves_numbers_alone);
    check_file(in_folder("file"), "new");
    CHECK(unlink(in_folder("file")) == 0);
}

/* ---- names ---- */

static void check_path(const char *pattern, const char *expected) {
    hk_line_t line = {0};
    CHECK(hk_line_path(&line, pattern, false));
    CHECK_TEXT(line.text, expected);
}

/* Relative paths stay relative to the folder of the first hk_path_keep() with a relative path; a %p
 * in the folder's own name is not replaced. */
static void keeps_its_folder(void *unused) {
    char name[32], expected[PATH_MAX];
    (void)unused;
    CHECK(mkdir(in_folder("%p"), 0755) == 0 && chdir(in_folder("%p")) == 0);
    check_path("some/file", "some/file");
    hk_path_keep("/none");
    check_path("some/file", "some/file");
    errno = 77;
    hk_path_keep("some/file");
    CHECK_EQ(errno, 77);
    CHECK(chdir("/") == 0);
    hk_path_keep("other");
    snprintf(name, sizeof name, "%%p/x.%d", getpid());
    strcpy(expected, in_folder(name));
    check_path("x.%p", expected);
    check_path("/x", "/x");
    CHECK(rmdir(in_folder("%p")) == 0);
}

/* The folder has been removed: relative paths stay as they are. */
static void keeps_no_folder(void *unused) {
    (void)unused;
    CHECK(mkdir(in_folder("gone"), 0755) == 0 && chdir(in_folder("gone")) == 0);
    CHECK(rmdir(in_folder("gone")) == 0);
    errno = 77;
    hk_path_keep("x");
    CHECK_EQ(errno, 77);
    check_path("x", "x");
}

/* A profile that is switched on at run time is written to the folder of that moment. */
static void profile_of_its_folder(void *unused) {
    (void)unused;
    CHECK(chdir(folder) == 0);
    if (hak_ctl("HAKMEM_PROF", "1", NULL, 0) != 0)
        put_text("refused", "");
    CHECK(chdir("/") == 0);
    exit(0);
}

static void under_which_name(void) {
    run(keeps_its_folder);
    run(keeps_no_folder);
    CHECK_EQ(files_in(folder), 0);
    child_run(&child, profile_of_its_folder, NULL);
    CHECK_EQ(child.status, 0);
    CHECK_EQ(files_in(folder), 1);
}

/* ---- signals ---- */

static void nothing(void) {}

/* The handler must use the alternate stack and restart interrupted system calls. */
static void handler_has_its_stack(void *unused) {
    struct sigaction now;
    (void)unused;
    hk_asked_listen(SIGUSR2, nothing);
    CHECK(sigaction(SIGUSR2, NULL, &now) == 0 && now.sa_handler != SIG_DFL);
    CHECK_EQ(now.sa_flags & (SA_ONSTACK | SA_RESTART), SA_ONSTACK | SA_RESTART);
}

/* ---- error messages ---- */

/* strerror() may take locks and allocate, so code inside malloc must not call it: this one fails. */
#if defined __GLIBC__ && defined __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 32)
#define HAS_OTHER_WORDS 1
char *strerror(int error) {
    (void)error;
    check_failed(__FILE__, __LINE__, "strerror is not called");
}
#endif
#endif

/* In a child: a peak profile is written amid malloc. */
static void profile_in_malloc(void) {
    static void *volatile p[8];
    for (unsigned i = 0; i < 8; i++)
        p[i] = hak_malloc(HK_MIB);
    for (unsigned i = 0; i < 8; i++)
        hak_free(p[i]);
}

static void profile_that_fails(void *unused) {
    (void)unused;
    setenv("HAKMEM_PROF", "1", 1);
    setenv("HAKMEM_PROF_PEAK", "1", 1);
    setenv("HAKMEM_PROF_PATH", "/proc/none/x", 1);
    execl("/proc/self/exe", "test_asked", "profile", (char *)NULL);
}

/* Messages about errors, also those of code inside malloc, must not need strerror(). */
static void in_words(void) {
#ifdef HAS_OTHER_WORDS
    CHECK_TEXT(hk_error_text(ENOENT), "No such file or directory");
    CHECK_TEXT(hk_error_text(12345), "an unknown error");
    child_run(&child, profile_that_fails, NULL);
    CHECK_EQ(child.status, 0);
    CHECK(HK_FAST || strstr(child.text, ": No such file or directory; no profile") != NULL);
#endif
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc == 2) {
        profile_in_malloc();
        return 0;
    }
    CHECK(mkdtemp(folder) != NULL && chmod(folder, 0755) == 0);
    in_whose_place();
    with_which_number();
    under_which_name();
    run(handler_has_its_stack);
    in_words();
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}
