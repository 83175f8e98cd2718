// A size that cannot be had is refused with NULL and ENOMEM by every function of the family.
#include "promise.h"

static void refused(void *block, const char *what) {
    int error = errno;
    PROMISE(block == NULL, "%s was not refused", what);
    PROMISE(error == ENOMEM, "%s: errno is %s, not ENOMEM", what, strerrorname_np(error));
    errno = 0;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    // Out of the compiler's sight, which knows that these cannot succeed.
    volatile size_t most = SIZE_MAX, half = PTRDIFF_MAX, top = (size_t)1 << 63;
    void *block = malloc(100);
    fill(block, 100, 1);
    errno = 0;
    refused(malloc(most), "malloc(SIZE_MAX)");
    refused(malloc(half + 1), "malloc(PTRDIFF_MAX + 1)");
    refused(calloc(1, half + 1), "calloc(1, PTRDIFF_MAX + 1)");
    refused(realloc(block, half + 1), "realloc(block, PTRDIFF_MAX + 1)");
    refused(memalign(64, most - 32), "memalign(64, SIZE_MAX - 32)");
    refused(aligned_alloc(64, most - 63), "aligned_alloc(64, SIZE_MAX - 63)");
    refused(memalign(top, 1), "memalign of alignment 2^63");
    refused(valloc(most), "valloc(SIZE_MAX)");
    refused(pvalloc(most), "pvalloc(SIZE_MAX)");
    void *untouched = block;
    int error = posix_memalign(&untouched, 64, most);
    PROMISE(error == ENOMEM, "posix_memalign(SIZE_MAX) returned %d, not ENOMEM", error);
    PROMISE(untouched == block, "posix_memalign changed the pointer that it refused");
    PROMISE(intact(block, 100, 1), "the block whose realloc was refused lost its content");
    free(block);
    return 0;
}
