// expect: survives
// secure: mismatched free: PTR, a block of 40 bytes, from aligned new\[], freed as aligned new's, in thread .*
// sampled: survives
// What an aligned operator new[] gave out is taken back by an aligned operator delete.
#include "corrupt.h"

void *_ZnamSt11align_val_t(size_t n, size_t align) __attribute__((weak));
void _ZdlPvSt11align_val_t(void *p, size_t align) __attribute__((weak));

int main(void) {
    if (_ZnamSt11align_val_t == NULL || _ZdlPvSt11align_val_t == NULL)
        return announce(malloc(1)) == NULL;
    _ZdlPvSt11align_val_t(announce(_ZnamSt11align_val_t(40, 64)), 64);
}
