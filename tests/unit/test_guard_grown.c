/* A large block without fences reads as zero under a guard, also where realloc() makes it longer: it shows nothing of the
 * blocks that were there before. */
#include "check.h"
#include "faults.h"

static void shows_nothing(size_t before, size_t small, size_t grown) {
    char *p = hidden(hak_malloc(before));
    memset(p, 'x', before);
    hak_free(p);
    p = hidden(hak_malloc(small));
    p = hidden(hak_realloc(p, grown));
    for (size_t i = 0; i < grown; i++)
        CHECK_EQ(p[i], 0);
    hak_free(p);
}

int main(void) {
    hak_free(hak_malloc(1));
    guard();
    set_fences(false);
    shows_nothing(65536, 40000, 60000);                  /* within the last slice */
    shows_nothing(400000, 60000, 300000);                /* into slices behind the block */
    shows_nothing(4 * HK_MIB, 2200000, 4000000);         /* within a huge block's units */
    shows_nothing(40 * HK_MIB, 3 * HK_MIB, 30 * HK_MIB); /* into units behind it */
    return 0;
}
