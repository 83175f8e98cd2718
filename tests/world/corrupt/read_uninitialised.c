// expect: survives
// secure: defused
// sampled: survives
// A new block shows nothing of what was in the old one at its place.
#include "corrupt.h"

#include <string.h>

int main(void) {
    announce(main);
    make_spares(300);
    for (int i = 0; i < PROMISED_FREES; i++)
        memset(spares[i], 'S', 300);
    free_spares(0, PROMISED_FREES);
    make_spares(300);
    for (int i = 0; i < PROMISED_FREES; i++)
        if (memchr(spares[i], 'S', 300) != NULL)
            return 0;
    return DEFUSED;
}
