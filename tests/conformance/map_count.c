// With 40 mappings left of vm.max_map_count, malloc and realloc of some 5 MB never return NULL.
#include "promise.h"

#include <sys/mman.h>

// Every other page of a reservation readable makes two mappings each; the last ones are undone.
static void use_up_mappings(size_t left) {
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    unsigned long most = 0;
    NEED(file != NULL && fscanf(file, "%lu", &most) == 1, "vm.max_map_count");
    fclose(file);
    if (most > 1000000)
        CANNOT_CHECK("vm.max_map_count is %lu", most);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), done = 0;
    char *pages = mmap(NULL, (most + 4) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(pages != MAP_FAILED, "mmap");
    while (done < most && mprotect(pages + done * page, page, PROT_READ) == 0)
        done += 2;
    NEED(errno == ENOMEM, "mprotect");
    for (size_t undone = 0; undone < left; undone += 2) {
        done -= 2;
        NEED(mprotect(pages + done * page, page, PROT_NONE) == 0, "mprotect back");
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    enum { BLOCKS = 400 };
    static char *blocks[BLOCKS];
    uint64_t seed = 5;
    use_up_mappings(40);
    for (long i = 0; i < BLOCKS + scaled(20000, 4000); i++) {
        size_t at = i < BLOCKS ? (size_t)i : next(&seed) % BLOCKS;
        size_t n = 2 * MIB + next(&seed) % (6 * MIB);
        bool moves = i >= BLOCKS && next(&seed) % 2 == 0;
        if (!moves)
            free(blocks[at]);
        blocks[at] = moves ? realloc(blocks[at], n) : malloc(n);
        PROMISE(blocks[at] != NULL, "operation %ld: %s(%zu) with few mappings left: %s", i,
                moves ? "realloc" : "malloc", n, strerror(errno));
        blocks[at][0] = blocks[at][n - 1] = 1;
    }
    return 0;
}
