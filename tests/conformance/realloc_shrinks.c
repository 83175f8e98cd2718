// With no memory left a block can still be made smaller, errno stays as it was, and the content too.
#include "promise.h"

static void make_smaller(size_t n, size_t less) {
    unsigned char *block = malloc(n);
    NEED(block != NULL, "malloc");
    memset(block, 7, less);
    void *first = NULL;
    for (size_t size = MIB; size >= 16; size /= 2)
        for (void **taken; (taken = malloc(size)) != NULL; first = taken)
            *taken = first;
    errno = 0;
    unsigned char *smaller = realloc(block, less);
    PROMISE(smaller != NULL, "realloc from %zu to %zu with no memory left gave NULL", n, less);
    PROMISE(errno == 0, "realloc from %zu to %zu succeeded, and errno is %d", n, less, errno);
    for (size_t i = 0; i < less; i++)
        PROMISE(smaller[i] == 7, "realloc from %zu to %zu lost content", n, less);
    free(smaller);
    for (void *following; first != NULL; first = following) {
        following = *(void **)first;
        free(first);
    }
}

int main(int argc, char **argv) {
    if (begin(argc, argv) == NULL) {
        again_t how = {.stage = "bounded", .resource = RLIMIT_DATA, .limit = 32 * MIB};
        PROMISE(again(how) == 1, "the program does not run with 32 MiB of data");
        return 0;
    }
    static const size_t sizes[][2] = {{600, 40},        {30000, 1000}, {200000, 50},
                                      {MIB, 100 * KIB}, {MIB, 2000},   {5 * MIB, 3 * MIB},
                                      {5 * MIB, 100}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        make_smaller(sizes[i][0], sizes[i][1]);
    answer(1);
}
