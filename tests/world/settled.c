// settled [early]: nobody can write to the options and the tables of size classes of a guarded process, also after one of
// them has changed; and they do change. `early`: one of them before the start, which hides a table.
#include <inttypes.h>

#include "check.h"
#include "hakmem/hakmem.h"

enum { PAGES = 3, ODD = 1312, BLOCKS = 20000 };

// Pages of the library's file that can be read and neither written to nor run.
static long read_only_pages(void) {
    Dl_info info;
    char line[512], access[5];
    uintptr_t start, end;
    long bytes = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL && dladdr(dlsym(RTLD_DEFAULT, "hak_ctl"), &info) != 0, "no maps");
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, info.dli_fname) != NULL &&
            sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &start, &end, access) == 3 &&
            strcmp(access, "r--p") == 0)
            bytes += (long)(end - start);
    fclose(maps);
    return bytes / 4096;
}

static void change_early(int argc, char **argv, char **envp) {
    int (*ctl)(const char *, const char *, char *, size_t);
    (void)argv, (void)envp;
    WORLD_FIND(ctl, "hak_ctl");
    if (argc == 2 && ctl != NULL)
        CHECK(ctl("HAKMEM_GUARD_SAMPLE", "100000", NULL, 0) == 0, "hak_ctl before the start");
}
__attribute__((section(".preinit_array"),
               used)) static void (*const preinit)(int, char **, char **) = change_early;

int main(void) {
    static void *blocks[BLOCKS];
    world_begin(30);
    if (sysconf(_SC_PAGESIZE) != 4096)
        world_skip("OS pages are larger");
    int (*ctl)(const char *, const char *, char *, size_t) = NULL;
    int (*get)(hak_stats_t *) = NULL;
    *(void **)&ctl = dlsym(RTLD_DEFAULT, "hak_ctl");
    *(void **)&get = dlsym(RTLD_DEFAULT, "hak_stats_get");
    CHECK(ctl != NULL && get != NULL, "this is not hakmem");
    const long before = read_only_pages();
    CHECK(before > PAGES, "%ld pages", before);

    CHECK(ctl("HAKMEM_SS_MEM_LEAN_TARGET_MB", "17", NULL, 0) == 0, "hak_ctl");
    char now[32];
    CHECK(ctl("HAKMEM_SS_MEM_LEAN_TARGET_MB", NULL, now, sizeof now) == 0 && !strcmp(now, "17"),
          "it is %s", now);
    CHECK(read_only_pages() == before, "the options were left open");

    for (int i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = malloc(ODD)) != NULL, "malloc");
    hak_stats_t stats = {.size = sizeof stats};
    CHECK(get(&stats) == 0 && stats.classes_learned != 0, "nothing was learned");
    CHECK(read_only_pages() == before, "the tables were left open");
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return 0;
}
