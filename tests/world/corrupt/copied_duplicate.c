// expect: survives
// secure: survives
// checked: overflow: PTR, a block of 100 bytes, at byte 100, .*
// sampled: survives
// A second text is made of one that does not end in its block.
#include "corrupt.h"

#include <string.h>

int main(void) {
    char *p = announce(malloc(100));
    memset(at_offset(p, 0), 'S', 100);
    free(strdup(at_offset(p, 0)));
}
