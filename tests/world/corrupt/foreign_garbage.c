// expect: SIGSEGV
// secure: invalid free: PTR, in thread [0-9]+
// sampled: SIGSEGV
// An address at which nothing is mapped.
#include "corrupt.h"

int main(void) { free(announce(at_offset(NULL, 0x123456780))); }
