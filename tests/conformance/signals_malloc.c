// A signal handler that calls malloc and free, which no standard allows, neither hangs nor crashes.
#include "signals.h"

static volatile sig_atomic_t calls = 0;

static void handler(int number) {
    int saved = errno;
    size_t n = (size_t)16 << calls % 16;
    char *block = malloc(n);
    if (block != NULL)
        block[0] = block[n - 1] = (char)number;
    free(block);
    calls = calls + 1;
    errno = saved;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    every_half_millisecond(handler);
    if (calls < 10)
        CANNOT_CHECK("the handler was called only %d times", (int)calls);
    return 0;
}
