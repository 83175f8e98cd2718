// A process that does little holds little: private memory that it has written to, beside what it
// would have with the C library's own allocator.
#include "process.h"

enum { MOST_KIB = 208, BLOCKS = 300 };

static int dirty_kib(void) {
    char text[4096];
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    text[len > 0 ? len : 0] = '\0';
    const char *line = strstr(text, "Private_Dirty:");
    return line != NULL ? atoi(line + strlen("Private_Dirty:")) : -1;
}

// What a small tool does: some strings, some records, a buffer or two.
static int be_small(void) {
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = i % 50 == 0 ? 4096 : 16 + (size_t)(i * 37 % 500);
        CHECK((blocks[i] = malloc(size)) != NULL, "malloc");
        memset(blocks[i], i, size);
        if (i % 3 == 2)
            free(blocks[i - 1]);
    }
    return printf("%d\n", dirty_kib()) < 0;
}

static int of_child(const char *self) {
    char command[4200];
    int kib = 0;
    snprintf(command, sizeof command, "exec %s small", self);
    FILE *child = popen(command, "r");
    CHECK(child != NULL && fscanf(child, "%d", &kib) == 1, "popen");
    CHECK(pclose(child) == 0, "the child failed");
    return kib;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "small") == 0)
        return be_small();
    world_begin(30);
    if (dirty_kib() < 0)
        world_skip("the kernel has no smaps_rollup");
    int ours = of_child(argv[0]);
    CHECK(unsetenv("LD_PRELOAD") == 0, "unsetenv");
    int theirs = of_child(argv[0]);
    world_say("private memory: %d KiB, without it %d KiB", ours, theirs);
    CHECK(theirs > 0 && ours > 0, "no figure");
    CHECK_OURS(ours <= theirs + MOST_KIB, "%d KiB more than the C library's", ours - theirs);
    return 0;
}
