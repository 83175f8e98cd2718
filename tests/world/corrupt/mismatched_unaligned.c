// expect: survives
// secure: mismatched free: PTR, a block of 40 bytes, from new, freed as aligned new's, in thread .*
// sampled: survives
// What operator new gave out is taken back by an aligned one, with an alignment that the block has.
#include "corrupt.h"

void *_Znwm(size_t n) __attribute__((weak));
void _ZdlPvSt11align_val_t(void *p, size_t align) __attribute__((weak));

int main(void) {
    if (_Znwm == NULL || _ZdlPvSt11align_val_t == NULL)
        return announce(malloc(1)) == NULL;
    _ZdlPvSt11align_val_t(announce(_Znwm(40)), 16);
}
