// Built with AddressSanitizer, whose runtime brings its own malloc.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    for (size_t i = 0; i < 10000; i++) {
        char *block = realloc(calloc(1, 1 + i % 500), 2000);
        memset(block, 1, 2000);
        free(block);
    }
    puts("to its end");
    return 0;
}
