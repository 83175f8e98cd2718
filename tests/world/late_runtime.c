// late_runtime PLUGIN [replaced]: a C program loads a plugin of C++, and the C++ library with it, as a library for itself
// alone or inside it: what operator new does there where memory has run out is what it does in a C++ program. `replaced`:
// the program has an operator new of its own (replaced_new.cc), which throws.
#include "check.h"

int main(int argc, char **argv) {
    const char *(*plugin_asks)(bool is_replaced);
    world_begin(60);
    CHECK(argc == 2 || argc == 3, "usage: late_runtime PLUGIN [replaced]");
    CHECK(dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD) == NULL, "the C++ library is there");
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL, "dlopen: %s", dlerror());
    void *symbol = dlsym(plugin, "plugin_asks");
    CHECK(symbol != NULL, "dlsym: %s", dlerror());
    memcpy(&plugin_asks, &symbol, sizeof symbol);
    const char *problem = plugin_asks(argc == 3);
    CHECK(problem == NULL, "%s", problem);
    return 0;
}
