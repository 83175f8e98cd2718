// expect: survives
// secure: defused
// sampled: survives
// Reading a freed large block where these come and go all the time: nothing of what was in it is left.
#include "recycled.h"

int main(void) {
    char *p = recycled();
    for (int i = 0; i < RECYCLED; i++)
        if (*(volatile char *)at_offset(p, (size_t)i) == 'S')
            return 0;
    return DEFUSED;
}
