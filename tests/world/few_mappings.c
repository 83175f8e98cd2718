// Where nearly all mappings that the system allows a process are taken, small blocks can still be had,
// though the secure profile cuts each superslab by several.
#include "check.h"

#include <sys/mman.h>

enum { LEFT = 60, BLOCKS = 100000 };

// Every other page of a reservation can be read, which makes two mappings of each; the last ones are undone.
static void use_up_mappings(void) {
    unsigned long most = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &most) == 1, "vm.max_map_count");
    fclose(file);
    if (most > 1000000)
        world_skip("vm.max_map_count is too high to be reached");
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t done = 0;
    char *pages = mmap(NULL, (most + 4) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED, "mmap");
    while (done < most && mprotect(pages + done * page, page, PROT_READ) == 0)
        done += 2;
    CHECK(errno == ENOMEM, "mprotect");
    CHECK(munmap(pages + (done - LEFT) * page, (most + 4 - done + LEFT) * page) == 0, "munmap");
}

int main(void) {
    world_begin(60);
    use_up_mappings();
    for (size_t i = 0; i < BLOCKS; i++) {
        const size_t n = 1 + i % 2000;
        char *p = malloc(n);
        CHECK(p != NULL, "malloc(%zu), the block %zu: %s", n, i, strerror(errno));
        p[0] = p[n - 1] = 1;
    }
    return 0;
}
