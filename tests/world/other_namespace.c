// other_namespace PLUGIN: what is opened into a namespace of its own (dlmopen) has a C library of its own, which counts keys
// for thread-specific data anew, but keeps the data where the first one does. What lies there when a thread ends is not
// taken for hakmem's.
#include "pattern.h"

#include <pthread.h>

enum { THREADS = 20, BLOCKS = 300 };

static int (*plugin_begin)(void), (*plugin_set)(void);
static size_t (*plugin_changed)(void);

static void *run(void *is_first) {
    block_t *blocks[BLOCKS];
    CHECK(is_first == NULL || plugin_set() == 0, "plugin_set");
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = block_new(20 + i * 10, i);
    CHECK(plugin_set() == 0, "plugin_set");
    for (size_t i = 0; i < BLOCKS; i++)
        block_delete(blocks[i]);
    return NULL;
}

#define FIND(plugin, name)                                                                         \
    do {                                                                                           \
        void *found = dlsym(plugin, #name);                                                        \
        CHECK(found != NULL, "dlsym: %s", dlerror());                                              \
        memcpy(&name, &found, sizeof name);                                                        \
    } while (0)

int main(int argc, char **argv) {
    world_begin(60);
    CHECK(argc == 2, "usage: other_namespace PLUGIN");
    void *plugin = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
    CHECK(plugin != NULL, "dlmopen: %s", dlerror());
    FIND(plugin, plugin_begin);
    FIND(plugin, plugin_set);
    FIND(plugin, plugin_changed);
    CHECK(plugin_begin() == 0, "plugin_begin");
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, run, i % 2 == 0 ? NULL : &thread) == 0, "thread");
        CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
        CHECK(plugin_changed() == 0, "its data has changed at %zu", plugin_changed() - 1);
    }
    run(NULL);
    return 0;
}
