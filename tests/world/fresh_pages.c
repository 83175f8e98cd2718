// Where each block is looked at before it is given out, a fresh page still faults only once.
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "check.h"

enum { PAGES = 2000 };

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

int main(void) {
    static char *blocks[PAGES];
    world_begin(60);
    const long before = faults();
    for (int i = 0; i < PAGES; i++) {
        CHECK((blocks[i] = malloc(4000)) != NULL, "malloc");
        memset(blocks[i], 1, 4000);
    }
    CHECK(faults() - before < PAGES * 5 / 4, "%ld faults for %d pages", faults() - before, PAGES);
    for (int i = 0; i < PAGES; i++)
        free(blocks[i]);
    return 0;
}
