// expect: survives
// secure: defused
// sampled: SIGSEGV use after free: .*
// realloc moves a block: nothing of what was in it is left where it was.
#include <string.h>

#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(100));
    memset(p, 'x', 100);
    char *q = realloc(p, 5000);
    const char *old = at_offset(p, 0);
    for (int i = 0; i < 100; i++)
        if (old[i] == 'x')
            return 0;
    free(q);
    return DEFUSED;
}
