/* Prints the version, and exits with 0 if the program's malloc is hakmem's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hakmem/hakmem.h>

int main(void) {
    char *text = malloc(100);
    if (text == NULL)
        return 2;
    strcpy(text, hak_version());
    puts(text);
    free(text);
    return !hak_is_serving();
}
