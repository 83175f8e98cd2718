// Who allocates may have a small stack, as fibres and handlers of signals have: no call takes 2 KiB of it,
// or 4 KiB where the stacks of samples are read.
#include "process.h"

#include <malloc.h>
#include <ucontext.h>

enum { STACK = 64 * 1024, MOST = 2048, MOST_READING = 4096, BLOCKS = 400, PAINT = 0x5a };
static _Alignas(16) unsigned char stack[STACK];
static ucontext_t outside, inside;
static void *blocks[BLOCKS];
static size_t at, size, most = MOST;

static void allocate(void) { blocks[at] = malloc(size); }
static void clear(void) { blocks[at] = calloc(1, size); }
static void align(void) { blocks[at] = memalign(4096, size); }
static void resize(void) { blocks[at] = realloc(blocks[at], 2 * size); }
static void release(void) { free(blocks[at]); }
static void trim(void) { malloc_trim(0); }

static void on_small_stack(void (*call)(void), const char *name) {
    memset(stack, PAINT, sizeof stack);
    CHECK(getcontext(&inside) == 0, "getcontext: %s", strerror(errno));
    inside.uc_stack = (stack_t){.ss_sp = stack, .ss_size = sizeof stack};
    inside.uc_link = &outside;
    makecontext(&inside, call, 0);
    CHECK(swapcontext(&outside, &inside) == 0, "swapcontext: %s", strerror(errno));
    size_t untouched = 0;
    while (stack[untouched] == PAINT)
        untouched++;
    CHECK(STACK - untouched < most, "%s of %zu bytes took %zu bytes of stack", name, size,
          STACK - untouched);
}

static void all(size_t count) {
    for (at = 0; at < count; at++) {
        if (at % 3 == 0)
            on_small_stack(allocate, "malloc");
        else if (at % 3 == 1)
            on_small_stack(clear, "calloc");
        else
            on_small_stack(align, "memalign");
        CHECK(blocks[at] != NULL, "%zu bytes: %s", size, strerror(errno));
        on_small_stack(resize, "realloc");
    }
    for (at = 0; at < count; at++)
        on_small_stack(release, "free");
}

int main(void) {
    static const size_t sizes[] = {8, 100, 1000, 5000, 40000, 300000, 3000000, 9000000};
    world_begin(60);
    if (getenv("HAKMEM_GUARD_SAMPLE") != NULL)
        most = MOST_READING;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size = sizes[i];
        all(size > 100000 ? 20 : BLOCKS); /* the largest take what the cache has of others */
    }
    on_small_stack(trim, "malloc_trim");
    return 0;
}
