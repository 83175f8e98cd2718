// limit_memory as|data: under ulimit -v 1 GiB or RLIMIT_DATA 64 MiB the allocator starts, works,
// answers NULL and ENOMEM when the limit is reached, and works again when blocks were freed.
// limit_memory grow: a large block grows to a size that is no room for beside the old one.
// limit_memory aligned: blocks that are aligned share mappings, of which the system allows so many.
// limit_memory sparse: where few large blocks are left among free memory, that serves small ones.
// limit_memory sweep: the smallest limits end in a clean refusal, never in a crash.
#include "pattern.h"
#include "process.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>

typedef struct node {
    struct node *next;
    size_t size;
    uint64_t seed;
} node_t;

static char self[4096];

// The bytes written after a node. Touching all of a GiB several times would take most of a minute.
static size_t marked(size_t size) {
    size_t n = size - sizeof(node_t);
    return n < 1000 ? n : 1000;
}

// Allocates until the limit; the blocks form a list inside themselves: an array would need memory.
static node_t *exhaust(size_t size, size_t *count) {
    node_t *list = NULL;
    for (*count = 0;; ++*count) {
        errno = 0;
        node_t *node = malloc(size);
        if (node == NULL) {
            CHECK(errno == ENOMEM, "malloc(%zu) = NULL with errno %d", size, errno);
            return list;
        }
        CHECK(*count <= ((size_t)8 << 30) / size, "the limit of this process does not work");
        pattern_fill(node + 1, marked(size), *count);
        *node = (node_t){list, size, *count};
        list = node;
    }
}

// Frees every step-th node of the list and returns the rest.
static node_t *release(node_t *list, size_t step) {
    node_t *kept = NULL;
    for (size_t i = 0; list != NULL; i++) {
        node_t *next = list->next;
        CHECK_PATTERN(list + 1, marked(list->size), list->seed);
        if (i % step == 0) {
            free(list);
        } else {
            list->next = kept;
            kept = list;
        }
        list = next;
    }
    return kept;
}

static void fill_and_empty(size_t size, size_t at_least) {
    size_t count, again;
    node_t *list = exhaust(size, &count);
    CHECK_OURS(count * size >= at_least, "blocks of %zu: only %zu KiB before the limit", size,
               count * size >> 10);
    void *grown = malloc(64);
    if (grown != NULL)
        free(realloc(grown, 128)); // either answer is right, a crash is not
    errno = 0;
    CHECK(calloc(2, count * size) == NULL && errno == ENOMEM, "calloc at the limit");
    list = release(list, 2);
    node_t *second = exhaust(size, &again);
    CHECK(again * 3 >= count, "blocks of %zu: %zu at first, only %zu after freeing half", size,
          count, again);
    release(list, 1);
    release(second, 1);
}

// Between the steps all blocks were freed: memory of one size must serve the next.
static int be_limited(size_t at_least) {
    static const size_t sizes[] = {MIB, 100, 40000, 3 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        fill_and_empty(sizes[i], at_least);
    void *last = malloc(at_least / 3);
    CHECK_OURS(last != NULL, "%zu MiB after everything was freed", at_least / 3 / MIB);
    free(last);
    return 0;
}

static int be_sparse(void) {
    size_t count, small;
    node_t *kept = NULL, *next;
    for (node_t *node = exhaust(100000, &count); node != NULL; node = next) {
        next = node->next;
        if (node->seed % 20 == 0) {
            node->next = kept;
            kept = node;
        } else {
            free(node);
        }
    }
    node_t *list = exhaust(4000, &small);
    CHECK_OURS(small * 4000 >= count * 100000 / 2,
               "%zu blocks of 4000 bytes where %zu of 100000 were", small, count);
    release(list, 1);
    release(kept, 1);
    return 0;
}

// Steps that are neither units nor slices; the first page of each MiB tells whose it is.
static int be_growing(void) {
    size_t n = 100 * MIB;
    char *block = malloc(n);
    CHECK(block != NULL, "malloc(%zu)", n);
    for (size_t at = 0; at < n; at += MIB)
        pattern_fill(block + at, 1000, at);
    for (size_t more = 140 * MIB + 5000; more < 240 * MIB; more += 30 * MIB + 12345) {
        char *grown = realloc(block, more);
        CHECK_OURS(grown != NULL, "%zu MiB to %zu", n / MIB, more / MIB);
        if (grown == NULL)
            break;
        for (size_t at = 0; at < n; at += MIB)
            CHECK_PATTERN(grown + at, 1000, at);
        for (size_t at = (n + MIB - 1) / MIB * MIB; at + MIB <= more; at += MIB)
            pattern_fill(grown + at, 1000, at);
        block = grown;
        n = more / MIB * MIB;
    }
    free(block);
    block = malloc(200 * MIB);
    CHECK_OURS(block != NULL, "200 MiB after everything was freed");
    free(block);
    return 0;
}

static size_t mappings(void) {
    size_t n = 0;
    int file = open("/proc/self/maps", O_RDONLY), c = 0;
    char text[4096];
    for (ssize_t got; (got = read(file, text, sizeof text)) > 0;)
        for (c = 0; c < got; c++)
            n += text[c] == '\n';
    CHECK(close(file) == 0 && n != 0, "/proc/self/maps");
    return n;
}

static int be_aligned(void) {
    enum { BLOCKS = 4000 };
    static char *blocks[BLOCKS];
    const size_t before = mappings();
    for (size_t i = 0; i < BLOCKS; i++) {
        const size_t align = (size_t)2048 << i % 6, n = 40000 + i % 7 * 1000;
        CHECK((blocks[i] = memalign(align, n)) != NULL, "memalign(%zu, %zu), block %zu", align, n,
              i);
        CHECK((uintptr_t)blocks[i] % align == 0, "memalign(%zu) = %p", align, (void *)blocks[i]);
        pattern_fill(blocks[i], 1000, i);
    }
    CHECK_OURS(mappings() < before + BLOCKS / 10, "%zu mappings for %d blocks", mappings() - before,
               BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK_PATTERN(blocks[i], 1000, i);
        free(blocks[i]);
    }
    return 0;
}

static pid_t start_limited(int resource, rlim_t limit, const char *mode) {
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        struct rlimit both = {limit, limit};
        CHECK(setrlimit((__rlimit_resource_t)resource, &both) == 0, "setrlimit");
        execl(self, self, mode, (char *)NULL);
        _exit(126);
    }
    return child;
}

static int be_tiny(void) {
    for (size_t n = 16; n < 8 * MIB; n *= 2) {
        errno = 0;
        void *block = malloc(n);
        CHECK(block != NULL || errno == ENOMEM, "malloc(%zu): errno %d", n, errno);
        if (block != NULL)
            memset(block, 1, n);
        free(block);
    }
    return 0;
}

// Exit codes of a loader that finds no memory are fine, and so is the kernel's SIGKILL at exec.
static void sweep(int resource, size_t from, size_t to, size_t step) {
    size_t good = 0;
    for (size_t limit = from; limit <= to; limit += step) {
        int status = process_wait(start_limited(resource, limit, "tiny"));
        bool clean = WIFEXITED(status) && WEXITSTATUS(status) != 1;
        CHECK(clean || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL),
              "limit %zu KiB: ended with status 0x%x", limit >> 10, status);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    CHECK(good > 0, "never worked, up to a limit of %zu MiB", to / MIB);
}

int main(int argc, char **argv) {
    world_begin(60);
    CHECK(argc == 2, "usage: limit_memory as|data|grow|aligned|sparse|sweep");
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "/proc/self/exe");
    const char *mode = argv[1];
    if (strcmp(mode, "tiny") == 0)
        return be_tiny();
    if (strcmp(mode, "growing") == 0)
        return be_growing();
    if (strcmp(mode, "be-aligned") == 0)
        return be_aligned();
    if (strcmp(mode, "be-sparse") == 0)
        return be_sparse();
    if (strcmp(mode, "limited-as") == 0)
        return be_limited(300 * MIB);
    if (strcmp(mode, "limited-data") == 0)
        return be_limited(20 * MIB);
    if (strcmp(mode, "as") == 0)
        CHECK_CHILD_OK(start_limited(RLIMIT_AS, 1024 * MIB, "limited-as"), "ulimit -v");
    else if (strcmp(mode, "data") == 0)
        CHECK_CHILD_OK(start_limited(RLIMIT_DATA, 64 * MIB, "limited-data"), "ulimit -d");
    else if (strcmp(mode, "grow") == 0) {
        CHECK_CHILD_OK(start_limited(RLIMIT_AS, 260 * MIB, "growing"), "ulimit -v");
        CHECK_CHILD_OK(start_limited(RLIMIT_DATA, 260 * MIB, "growing"), "ulimit -d");
    } else if (strcmp(mode, "aligned") == 0)
        CHECK_CHILD_OK(start_limited(RLIMIT_AS, 1024 * MIB, "be-aligned"), "ulimit -v");
    else if (strcmp(mode, "sparse") == 0)
        CHECK_CHILD_OK(start_limited(RLIMIT_AS, 64 * MIB, "be-sparse"), "ulimit -v");
    else
        sweep(RLIMIT_AS, 4 * MIB, 80 * MIB, MIB), sweep(RLIMIT_DATA, MIB / 4, 8 * MIB, MIB / 4);
    return 0;
}
