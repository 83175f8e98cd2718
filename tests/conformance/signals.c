// Threads that allocate can be interrupted by signal handlers at any point.
#include "signals.h"

static volatile sig_atomic_t calls = 0;

static void handler(int number) { calls = calls + (number != 0); }

int main(int argc, char **argv) {
    begin(argc, argv);
    every_half_millisecond(handler);
    if (calls < 10)
        CANNOT_CHECK("the handler was called only %d times", (int)calls);
    return 0;
}
