// own_malloc: a program with a malloc of its own that cannot serve anybody before main, as those that were dumped with their heap. What
// is preloaded asks it for nothing by then.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char pool[1 << 20];
static size_t used;
static int calls;

void *malloc(size_t n) {
    calls++;
    void *p = pool + used;
    used += (n + 15) / 16 * 16;
    return used <= sizeof pool ? p : NULL;
}
void free(void *p) { calls += p != NULL; }
void *calloc(size_t n, size_t size) { return malloc(n * size); }
void *realloc(void *p, size_t n) {
    void *now = malloc(n);
    return p != NULL && now != NULL ? memcpy(now, p, n) : now;
}

int main(void) {
#ifndef __GLIBC__
    return 77; // other loaders ask it for memory of their own
#endif
    if (calls == 0)
        return 0;
    fprintf(stderr, "%d calls before main\n", calls);
    return 1;
}
