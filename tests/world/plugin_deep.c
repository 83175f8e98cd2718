// What deep_binding.c opens: an object that frees what it is given.
#include <stdlib.h>

void plugin_free(void *p);
void *plugin_whose(void);

void plugin_free(void *p) { free(p); }

void *plugin_whose(void) {
    void (*volatile fn)(void *) = free;
    return *(void **)&fn;
}
