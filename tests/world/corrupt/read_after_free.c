// expect: survives
// secure: defused
// sampled: SIGSEGV use after free: PTR, a block of 200 bytes, at byte 0, .*
// Reading a freed small block: nothing of what was in it is left.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(200));
    for (int i = 0; i < 200; i++)
        p[i] = 'S';
    free(p);
    for (int i = 0; i < 200; i++)
        if (*(volatile char *)at_offset(p, (size_t)i) == 'S')
            return 0;
    return DEFUSED;
}
