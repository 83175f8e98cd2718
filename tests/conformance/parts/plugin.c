// Loaded and unloaded by plugin.c: allocates when it comes, frees when it goes.
#include <stdlib.h>
#include <string.h>

char *plugin_text(void);

static void *kept[50];

__attribute__((constructor)) static void come(void) {
    for (size_t i = 0; i < 50; i++)
        kept[i] = calloc(1, 10 + 100 * i);
}

__attribute__((destructor)) static void go(void) {
    for (size_t i = 0; i < 50; i++)
        free(kept[i]);
}

char *plugin_text(void) { return strdup("from the plugin"); }
