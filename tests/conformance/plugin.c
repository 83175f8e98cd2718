// A plugin that allocates can be loaded and unloaded a thousand times; its blocks outlive it.
#include "promise.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    char path[4096] = {0};
    NEED(readlink("/proc/self/exe", path, sizeof path - 32) > 0, "/proc/self/exe");
    strcpy(strrchr(path, '/'), "/parts/plugin.so");
    size_t before = 0;
    for (long i = 0; i < scaled(1000, 100); i++) {
        void *plugin = dlopen(path, RTLD_NOW);
        PROMISE(plugin != NULL, "dlopen: %s", dlerror());
        char *(*function)(void);
        void *found = dlsym(plugin, "plugin_text");
        memcpy(&function, &found, sizeof found);
        char *text = function();
        PROMISE(dlclose(plugin) == 0, "dlclose: %s", dlerror());
        PROMISE(strcmp(text, "from the plugin") == 0, "a plugin's block changed when it went");
        free(text);
        if (i == 20)
            before = resident();
    }
    size_t after = resident();
    PROMISE(after < before + 4 * MIB, "resident grew from %zu to %zu KiB", before / KIB,
            after / KIB);
    return 0;
}
