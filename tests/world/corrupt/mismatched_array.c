// expect: survives
// secure: mismatched free: PTR, a block of 40 bytes, from new\[], freed as new's, in thread .*
// sampled: survives
// What operator new[] gave out is taken back by operator delete.
#include "corrupt.h"

void *_Znam(size_t n) __attribute__((weak));
void _ZdlPv(void *p) __attribute__((weak));

int main(void) {
    void *p = announce(_Znam != NULL ? _Znam(40) : malloc(40));
    if (_Znam != NULL && _ZdlPv != NULL)
        _ZdlPv(p);
}
