// malloc_info writes a document in which a size grows by what was allocated.
#include "promise.h"

// The largest size="N" of the document.
static size_t largest(void) {
    char *text = NULL;
    size_t length = 0, most = 0;
    FILE *memory = open_memstream(&text, &length);
    NEED(memory != NULL, "open_memstream");
    PROMISE(malloc_info(0, memory) == 0, "malloc_info failed: %s", strerror(errno));
    fclose(memory);
    PROMISE(strstr(text, "<malloc") != NULL, "malloc_info wrote no <malloc> element");
    for (char *at = text; (at = strstr(at, "size=\"")) != NULL;) {
        size_t found = strtoul(at += 6, NULL, 10);
        most = found > most ? found : most;
    }
    free(text);
    return most;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    size_t before = largest(), total = 0;
    for (size_t i = 0; i < 60000; i++, total += 1000) // stays allocated
        *(char *)malloc(1000) = 1;
    size_t grown = largest() - before;
    PROMISE(grown >= total / 10 * 9, "%zu KiB were allocated, malloc_info says %zu KiB more",
            total / KIB, grown / KIB);
    return 0;
}
