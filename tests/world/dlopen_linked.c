// dlopen_linked PLUGIN: a process that was not started with hakmem loads a library linked to it, or that has the archive inside.
// The static TLS that hakmem needs must fit, malloc stays the C library's, and nothing breaks when
// the library is closed while threads that used it live on.
#include "pattern.h"

#include <link.h>
#include <pthread.h>

enum { THREADS = 4, STATIC_TLS_LIMIT = 64 };

static pthread_barrier_t barrier;
static int (*use_plugin)(void *foreign);

static void *run(void *unused) {
    (void)unused;
    pthread_barrier_wait(&barrier); // started before dlopen: its TLS block exists already
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 100; i++)
        CHECK(use_plugin(malloc(100)) == 0, "the plugin's own checks, in a thread");
    pthread_barrier_wait(
        &barrier); // ends after dlclose: hakmem's thread-exit code must still exist
    pthread_barrier_wait(&barrier);
    return NULL;
}

static int check_tls(struct dl_phdr_info *info, size_t size, void *found) {
    (void)size;
    if (strstr(info->dlpi_name, "libhakmem.so") == NULL &&
        strstr(info->dlpi_name, "world_plugin_inside") == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            CHECK(info->dlpi_phdr[i].p_memsz <= STATIC_TLS_LIMIT, "hakmem takes %zu bytes of TLS",
                  (size_t)info->dlpi_phdr[i].p_memsz);
    *(int *)found = 1;
    return 0;
}

int main(int argc, char **argv) {
    watchdog(60); // no world_begin: this process must run on the C library's allocator
    CHECK(argc == 2, "usage: dlopen_linked PLUGIN");
    CHECK(!world_on_hakmem(), "start this test without hakmem");
    pthread_t ids[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&ids[i], NULL, run, NULL) == 0, "pthread_create");
    pthread_barrier_wait(&barrier);
    block_t *before = block_new(3000, 1);

    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL, "dlopen: %s", dlerror());
    int loaded = 0;
    dl_iterate_phdr(check_tls, &loaded);
    CHECK(loaded, "%s did not bring hakmem with it", argv[1]);
    void *symbol = dlsym(plugin, "plugin_use");
    CHECK(symbol != NULL, "dlsym: %s", dlerror());
    memcpy(&use_plugin, &symbol, sizeof symbol);
    CHECK(use_plugin(malloc(100)) == 0, "the plugin's own checks");
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);

    CHECK(dlclose(plugin) == 0, "dlclose: %s", dlerror());
    block_delete(before);
    block_delete(block_new(100000, 2));
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(ids[i], NULL) == 0, "pthread_join");
    plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL, "dlopen again: %s", dlerror());
    return 0;
}
