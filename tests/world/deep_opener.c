// A library with a RUNPATH of its own, by which alone plugin_deep is found; it opens that also before hakmem's start.
#include <dlfcn.h>
#include <stdlib.h>

void *opener_open(int flags);
int opener_was_early(void);

static int early;

void *opener_open(int flags) {
    void *plugin = dlopen("libworld_plugin_deep.so", flags);
    __asm__ volatile(""); // a call at the end stays one: it is this library that opens
    return plugin;
}

__attribute__((constructor)) static void open_early(void) {
    void *plugin = opener_open(RTLD_NOW | RTLD_DEEPBIND), *fn;
    if (plugin == NULL)
        return;
    if (getenv("HAKMEM_DEEPBIND") == NULL && (fn = dlsym(plugin, "plugin_free")) != NULL) {
        void *p = malloc(100);
        (*(void (**)(void *)) & fn)(p);
    }
    early = dlclose(plugin) == 0;
}

int opener_was_early(void) { return early; }
