// expect: survives
// secure: defused
// sampled: defused
// A freed block is not the next one to be given out, so that a dangling pointer does not lead to it.
#include "corrupt.h"

int main(void) {
    void *p = announce(malloc(80));
    free(p);
    return malloc(80) == at_offset(p, 0) ? 0 : DEFUSED;
}
