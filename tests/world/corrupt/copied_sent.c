// expect: survives
// secure: survives
// checked: overflow: PTR, a block of 100 bytes, at byte 100, .*
// sampled: survives
// Sending more of a block than it holds.
#include "corrupt.h"

#include <fcntl.h>
#include <unistd.h>

int main(void) {
    volatile size_t n = 200;
    char *p = announce(malloc(100));
    ssize_t sent = write(open("/dev/null", O_WRONLY), p, n);
    free(p);
    return sent != 200;
}
