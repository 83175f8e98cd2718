// expect: survives
// secure: mismatched free: PTR, a block of 200000 bytes, from new, freed as malloc's, in thread .*
// sampled: survives
// A large block of operator new, resized by realloc, which leaves it where it is, and taken back by operator delete.
#include "corrupt.h"

void *_Znwm(size_t n) __attribute__((weak));
void _ZdlPv(void *p) __attribute__((weak));

int main(void) {
    void *p = announce(_Znwm != NULL ? _Znwm(200000) : malloc(200000));
    p = realloc(p, 200010);
    if (_ZdlPv != NULL)
        _ZdlPv(p);
}
