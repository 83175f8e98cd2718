// expect: survives
// secure: mismatched free: PTR, a block of 40 bytes, from new\[], freed as new's, in thread .*
// sampled: survives
// What operator new[] gave out is taken back by operator delete, with its size.
#include "corrupt.h"

void *_Znam(size_t n) __attribute__((weak));
void _ZdlPvm(void *p, size_t n) __attribute__((weak));

int main(void) {
    if (_Znam == NULL || _ZdlPvm == NULL)
        return announce(malloc(1)) == NULL;
    _ZdlPvm(announce(_Znam(40)), 40);
}
