// A large block that has been freed, at a place where blocks come and go all the time.
#pragma once

#include <unistd.h>

#include "corrupt.h"

enum { RECYCLED = 50000 };

// One that can be read: now and then one is made inaccessible nevertheless.
static inline char *recycled(void) {
    int ends[2];
    char *p, byte;
    if (pipe(ends) != 0)
        exit(2);
    for (int i = 0; i < PROMISED_FREES; i++)
        free(at_offset(malloc(RECYCLED), 0));
    do {
        p = malloc(RECYCLED);
        for (int i = 0; i < RECYCLED; i++)
            p[i] = 'S';
        free(p);
    } while (write(ends[1], at_offset(p, 0), 1) != 1 || read(ends[0], &byte, 1) != 1);
    return announce(p);
}
