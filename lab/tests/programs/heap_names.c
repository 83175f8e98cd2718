/* Functions to be named by their addresses: static, inlined into another, exported. It prints nothing. */
#include <stdlib.h>

void *volatile kept;

static inline __attribute__((always_inline)) void *inlined(size_t n) {
    return malloc(n + 1); /* line 7 */
}

__attribute__((noinline)) static void keep_static(size_t n) {
    kept = inlined(n);
}

__attribute__((noinline)) void keep_exported(size_t n) {
    kept = malloc(n + 2); /* line 15 */
}

int main(void) {
    keep_static(10);
    keep_exported(20);
    return 0;
}
