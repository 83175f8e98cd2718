// expect: survives
// secure: defused
// sampled: survives
// Blocks do not follow each other in memory in the order in which they are asked for.
#include "corrupt.h"

int main(void) {
    announce(main);
    make_spares(80);
    int in_order = 0;
    for (int i = 1; i < PROMISED_FREES; i++)
        in_order += (char *)spares[i] - (char *)spares[i - 1] == 80;
    return in_order > PROMISED_FREES / 4 ? 0 : DEFUSED;
}
