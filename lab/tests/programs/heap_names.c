/* Functions to be named by their addresses: static, inlined into another, exported. What they allocate is
 * known: with an argument so many times as much of it. */
#include <stdlib.h>

void *volatile kept;

static inline __attribute__((always_inline)) void *inlined(size_t n) {
    return malloc(n + 1); /* line 8 */
}

__attribute__((noinline)) static void keep_static(size_t n) {
    kept = inlined(n);
}

__attribute__((noinline)) void keep_exported(size_t n) {
    kept = malloc(n + 2); /* line 16 */
}

int main(int argc, char **argv) {
    for (int i = argc > 1 ? atoi(argv[1]) : 1; i > 0; i--) {
        keep_static(999);
        keep_exported(4998);
        free(kept);
    }
    return 0;
}
