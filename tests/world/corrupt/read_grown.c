// expect: survives
// secure: defused
// sampled: survives
// What realloc adds to a block shows nothing of an old one.
#include <string.h>

#include "corrupt.h"

int main(void) {
    make_spares(200);
    for (int i = 0; i < PROMISED_FREES; i++)
        memset(spares[i], 'x', 200);
    free_spares(0, PROMISED_FREES);
    make_spares(110);
    announce(spares[0]);
    for (int i = 0; i < PROMISED_FREES; i++) {
        const char *p = realloc(spares[i], 190);
        if (memchr(p + 110, 'x', 80) != NULL)
            return 0;
    }
    return DEFUSED;
}
