// A process that does little holds little: memory of its own, beside what it would have with the C
// library's own allocator. (Pages of a file that was just written would count as dirty.)
#include "statistics.h"

enum { MOST_KIB = 144, MOST_IDLE_KIB = 32, BLOCKS = 300 };

static int own_kib(void) { return (int)(smaps_rollup("Anonymous:") >> 10); }

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
    return printf("%d\n", own_kib()) < 0;
}

static int of_child(const char *self, const char *how) {
    char command[4200];
    int kib = 0;
    snprintf(command, sizeof command, "exec %s %s", self, how);
    FILE *child = popen(command, "r");
    CHECK(child != NULL && fscanf(child, "%d", &kib) == 1, "popen");
    CHECK(pclose(child) == 0, "the child failed");
    return kib;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "small") == 0)
        return be_small();
    if (argc == 2)
        return printf("%d\n", own_kib()) < 0;
    world_begin(30);
    if (own_kib() == 0)
        world_skip("the kernel has no smaps_rollup");
    int ours = of_child(argv[0], "small"), idle = of_child(argv[0], "idle");
    CHECK(unsetenv("LD_PRELOAD") == 0, "unsetenv");
    int theirs = of_child(argv[0], "small"), idle_theirs = of_child(argv[0], "idle");
    world_say("own memory: %d KiB, idle %d KiB, without it %d KiB and %d KiB", ours, idle, theirs,
              idle_theirs);
    CHECK(theirs > 0 && ours > 0 && idle > 0 && idle_theirs > 0, "no figure");
    CHECK_OURS(idle <= idle_theirs + MOST_IDLE_KIB, "%d KiB more, idle", idle - idle_theirs);
    CHECK_OURS(ours <= theirs + MOST_KIB, "%d KiB more than the C library's", ours - theirs);
    return 0;
}
