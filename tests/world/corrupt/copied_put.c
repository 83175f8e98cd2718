// expect: survives
// secure: survives
// checked: overflow: PTR, a block of 100 bytes, at byte 100, .*
// sampled: survives
// A text that does not end in its block is put into a stream.
#include "corrupt.h"

#include <string.h>

int main(void) {
    FILE *sink = fopen("/dev/null", "w");
    char *p = announce(malloc(100));
    memset(at_offset(p, 0), 'S', 100);
    return sink == NULL || fputs(at_offset(p, 0), sink) < 0;
}
