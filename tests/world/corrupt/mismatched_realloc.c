// expect: survives
// secure: mismatched free: PTR, a block of 40 bytes, from new, freed as malloc's, in thread .*
// sampled: survives
// What operator new gave out is resized by realloc, which leaves it where it is, and taken back by operator delete.
#include "corrupt.h"

void *_Znwm(size_t n) __attribute__((weak));
void _ZdlPv(void *p) __attribute__((weak));

int main(void) {
    void *p = announce(_Znwm != NULL ? _Znwm(40) : malloc(40));
    p = realloc(p, 40);
    if (_ZdlPv != NULL)
        _ZdlPv(p);
}
