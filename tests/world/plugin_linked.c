// The library that dlopen_linked loads: linked to libhakmem.so, it uses hakmem by its own names
// beside the process's malloc.
#include <hakmem/hakmem.h>

#include <stdlib.h>
#include <string.h>

int plugin_use(void *foreign);

// 0 when all is well, else the number of the failed step. Frees foreign, a block of the process.
int plugin_use(void *foreign) {
    if (hak_is_serving())
        return 1;
    for (size_t n = 1; n < 3000000; n = n * 2 + 1) {
        char *ours = hak_malloc(n), *theirs = malloc(n);
        if (ours == NULL || theirs == NULL || hak_usable_size(ours) < n)
            return 2;
        memset(ours, 1, n);
        memset(theirs, 2, n);
        ours = hak_realloc(ours, n + 100);
        if (ours == NULL || ours[n - 1] != 1 || theirs[n - 1] != 2)
            return 3;
        hak_free(ours);
        free(theirs);
    }
    hak_free(foreign); // the C library's block, handed on to the C library's free
    return 0;
}
