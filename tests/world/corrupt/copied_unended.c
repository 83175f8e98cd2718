// expect: survives
// secure: defused
// checked: overflow: PTR, a block of 16 bytes, at byte 16, .*
// sampled: survives
// A text that does not end in its block: measuring it, and what follows it says.
#include "corrupt.h"

#include <string.h>

int main(void) {
    enum { BYTES = 16 };
    make_spares(BYTES);
    for (int i = 0; i < PROMISED_FREES; i++)
        memset(spares[i], 'S', BYTES);
    char *p = announce(spares[PROMISED_FREES / 2]);
    return strlen(at_offset(p, 0)) > BYTES + 1 ? 0 : DEFUSED;
}
