// Linked statically: nothing can be preloaded.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    for (size_t i = 1; i < 1000; i++)
        free(memset(malloc(i * 100), 1, i * 100));
    puts("to its end");
    return 0;
}
