// code_pointers OBJECT...: nothing that can be written to of these libraries leads to code, in a guarded process: neither what the
// loader has looked up for them nor what they have found themselves.
#include <inttypes.h>
#include <link.h>
#include <malloc.h>
#include <stdint.h>

#include "check.h"

enum { RANGES = 4096 };
typedef struct {
    uintptr_t start, end;
} range_t;
static range_t code[RANGES], writable[RANGES];
static unsigned codes, writables;

static void read_mappings(void) {
    char line[512], access[5];
    range_t range;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "no maps");
    while (fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &range.start, &range.end, access) != 3)
            continue;
        CHECK(codes < RANGES && writables < RANGES, "more mappings than expected");
        if (access[2] == 'x')
            code[codes++] = range;
        if (access[1] == 'w')
            writable[writables++] = range;
    }
    fclose(maps);
}

static bool is_in(uintptr_t p, const range_t *ranges, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        if (p - ranges[i].start < ranges[i].end - ranges[i].start)
            return true;
    return false;
}

typedef struct {
    const char *name;
    unsigned objects, pointers;
} search_t;

// A word may be changing meanwhile.
static int look(struct dl_phdr_info *info, size_t bytes, void *argument) {
    search_t *search = argument;
    (void)bytes;
    const char *slash = strrchr(info->dlpi_name, '/'),
               *name = slash != NULL ? slash + 1 : info->dlpi_name;
    if (strncmp(name, search->name, strlen(search->name)) != 0 ||
        (*search->name == '\0' && *name != '\0'))
        return 0;
    search->objects++;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD)
            continue;
        const uintptr_t start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;
        for (uintptr_t at = (start + 7) & ~(uintptr_t)7; at + 8 <= end; at += 8) {
            if (at % 4096 == 0 && !is_in(at, writable, writables)) {
                at += 4096 - 8;
                continue;
            }
            if (!is_in(at, writable, writables))
                continue;
            const uintptr_t word = *(volatile uintptr_t *)at;
            Dl_info of;
            if (word == 0 || !is_in(word, code, codes))
                continue;
            search->pointers++;
            if (*search->name != '\0')
                world_say("%s+%#" PRIxPTR ": %#" PRIxPTR ", %s", name, at - info->dlpi_addr, word,
                          dladdr((void *)word, &of) != 0 ? of.dli_fname : "nowhere");
        }
    }
    return 0;
}

static void (*volatile planted)(void) = read_mappings;

int main(int argc, char **argv) {
    world_begin(30);
    if (sysconf(_SC_PAGESIZE) != 4096)
        world_skip("OS pages are larger");
    void *(*other)(size_t);
    WORLD_FIND(other, "__libc_malloc");
    void *foreign =
        other != NULL ? other(100) : NULL; // somebody else's, of whose size the C library is asked
    CHECK(foreign == NULL || malloc_usable_size(foreign) >= 100, "malloc_usable_size");
    free(foreign);
    malloc_trim(0); // which asks for the time
    planted();
    search_t own = {.name = ""};
    dl_iterate_phdr(look, &own);
    CHECK(own.objects == 1 && own.pointers != 0, "what is planted is not found");
    for (int i = 1; i < argc; i++) {
        search_t search = {.name = argv[i]};
        dl_iterate_phdr(look, &search);
        CHECK(search.objects == 1, "%u objects called %s", search.objects, argv[i]);
        CHECK(search.pointers == 0, "%u words of %s can be written to", search.pointers, argv[i]);
    }
    return 0;
}
