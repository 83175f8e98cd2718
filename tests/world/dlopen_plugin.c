// dlopen_plugin PLUGIN: loads and unloads a library whose constructor and destructor allocate, over
// and over, from several threads, with a thread of the library's own making in between.
#include "pattern.h"

#include <pthread.h>

enum { THREADS = 3, ROUNDS = 40 };

static const char *path;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void load_use_unload(void) {
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL, "dlopen: %s", dlerror());
    void *symbol = dlsym(plugin, "plugin_blocks");
    CHECK(symbol != NULL, "dlsym: %s", dlerror());
    block_t **(*plugin_blocks)(void);
    memcpy(&plugin_blocks, &symbol, sizeof symbol);
    block_t **blocks = plugin_blocks();
    block_delete(blocks[0]);       // made by the constructor, freed here
    blocks[0] = block_new(500, 1); // made here, freed by the destructor
    CHECK(dlclose(plugin) == 0, "dlclose: %s", dlerror());
    CHECK(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL, "%s was not unloaded", path);
}

static void *run(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        block_delete(block_new((size_t)i * 3000, 3));
        CHECK(dlopen("/nonexistent/library.so", RTLD_NOW) == NULL, "dlopen of nothing");
        CHECK(dlerror() != NULL, "dlerror"); // allocated inside the loader
        pthread_mutex_lock(&one_at_a_time);
        load_use_unload();
        pthread_mutex_unlock(&one_at_a_time);
    }
    return NULL;
}

int main(int argc, char **argv) {
    world_begin(60);
    CHECK(argc == 2, "usage: dlopen_plugin PLUGIN");
    path = argv[1];
    pthread_t ids[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&ids[i], NULL, run, NULL) == 0, "pthread_create");
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(ids[i], NULL) == 0, "pthread_join");
    return 0;
}
