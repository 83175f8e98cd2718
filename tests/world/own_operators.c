// own_operators PLUGIN: what operator new of a library's own gave out may be taken back by ours. Before such a library is
// there that is a mistake, as is another size even then. (With HAKMEM_PROFILE=secure.)
#include "check.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

void *_Znwm(size_t n) __attribute__((weak));
void _ZdlPv(void *p) __attribute__((weak));
void _ZdlPvm(void *p, size_t n) __attribute__((weak));

static const size_t sizes[] = {40, 5000, 200000};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void delete_mallocs(size_t n) { _ZdlPv(malloc(n)); }
static void delete_another_size(size_t n) { _ZdlPvm(_Znwm(n), n + 1); }

static bool is_found(void (*mistake)(size_t), size_t n) {
    int status;
    const pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        close(STDERR_FILENO);
        mistake(n);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

int main(int argc, char **argv) {
    void *(*plugin_new)(size_t n);
    world_begin(60);
    CHECK(argc == 2, "usage: own_operators PLUGIN");
    CHECK(_Znwm != NULL && _ZdlPv != NULL && _ZdlPvm != NULL, "no operators");
    if (dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL) == NULL)
        world_say("note: without the C++ library");
    for (unsigned i = 0; i < SIZES; i++)
        CHECK(is_found(delete_mallocs, sizes[i]), "malloc and delete of %zu bytes", sizes[i]);
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL, "dlopen: %s", dlerror());
    void *symbol = dlsym(plugin, "plugin_new");
    CHECK(symbol != NULL, "dlsym: %s", dlerror());
    memcpy(&plugin_new, &symbol, sizeof symbol);
    for (unsigned i = 0; i < SIZES; i++) {
        _ZdlPv(plugin_new(sizes[i]));
        CHECK(is_found(delete_another_size, sizes[i]), "a wrong size of %zu bytes", sizes[i]);
    }
    // what it gave out may be there when it is gone
    void *left = plugin_new(40);
    CHECK(dlclose(plugin) == 0, "dlclose: %s", dlerror());
    _ZdlPv(left);
    return 0;
}
