// expect: survives
// secure: defused
// sampled: survives
// Reading a freed block of several pages: nothing of what was in it is left, wherever.
#include "corrupt.h"

int main(void) {
    enum { BYTES = 20000 };
    char *p = announce(malloc(BYTES));
    for (int i = 0; i < BYTES; i++)
        p[i] = 'S';
    free(p);
    for (int i = 0; i < BYTES; i++)
        if (*(volatile char *)at_offset(p, (size_t)i) == 'S')
            return 0;
    return DEFUSED;
}
