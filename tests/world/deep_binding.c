// What is opened with RTLD_DEEPBIND, as PHP opens its extensions, frees what the program allocated, and so must not free by
// the C library; unless HAKMEM_DEEPBIND=1 says that the flag is meant. Who opens stays whoever calls dlopen.
#include "check.h"

void *opener_open(int flags);
int opener_was_early(void);

int main(void) {
    const char *option = getenv("HAKMEM_DEEPBIND");
    const bool deep = option != NULL && strcmp(option, "1") == 0;
    void *(*whose)(void);
    void (*plugin_free)(void *);
    void *ours = dlsym(RTLD_DEFAULT, "free"), *found;
    world_begin(20);
    CHECK(opener_was_early(), "a constructor cannot open by its library's RUNPATH");
    CHECK(dlopen("libworld_plugin_deep.so", RTLD_NOW) == NULL && dlerror() != NULL,
          "what only a library's RUNPATH leads to is found by the program");
    CHECK(dlopen("/nonexistent.so", RTLD_NOW | RTLD_DEEPBIND) == NULL && dlerror() != NULL,
          "opened what is not there");
    void *plugin = opener_open(RTLD_NOW | RTLD_DEEPBIND);
    CHECK(plugin != NULL, "the library's RUNPATH is not searched: %s", dlerror());
    found = dlsym(plugin, "plugin_whose");
    memcpy(&whose, &found, sizeof found);
    found = dlsym(plugin, "plugin_free");
    memcpy(&plugin_free, &found, sizeof found);
    CHECK((whose() == ours) != deep, "bound to the wrong free");
    for (size_t n = 1; n < 3000000 && !deep; n *= 3)
        plugin_free(malloc(n));
    CHECK(dlclose(plugin) == 0, "dlclose: %s", dlerror());
}
