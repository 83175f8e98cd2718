/* No function pointer that a guarded process keeps can be written to: not the next dlopen (of the shared
 * library), nor the handlers of SIGSEGV and SIGBUS that the program had. */
#include <link.h>

#include "faults.h"
#if defined(__GLIBC__) && !HK_NO_OVERRIDE && !defined(__SANITIZE_ADDRESS__) &&                     \
    !defined(__SANITIZE_THREAD__) && (defined(__x86_64__) || defined(__aarch64__))
#define HAS_DLOPEN 1
#include "../../shared/dlopen.c"
#else
#define HAS_DLOPEN 0
#endif

enum { RANGES = 4096 };
static uintptr_t starts[RANGES], ends[RANGES];
static unsigned writable;

static void read_mappings(void) {
    char line[512], access[5];
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    for (writable = 0; fgets(line, sizeof line, maps) != NULL && writable < RANGES;)
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &starts[writable], &ends[writable],
                   access) == 3 &&
            access[1] == 'w')
            writable++;
    fclose(maps);
}

typedef struct {
    uintptr_t word;
    unsigned found;
} search_t;

/* Looks at what of the program can be written to; the program contains the allocator. */
__attribute__((no_sanitize("address"))) static int look(struct dl_phdr_info *info, size_t bytes,
                                                        void *argument) {
    search_t *search = argument;
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t from = info->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;
        for (unsigned k = 0; part->p_type == PT_LOAD && k < writable; k++)
            for (uintptr_t at = (hk_max(from, starts[k]) + 7) & ~(uintptr_t)7;
                 at + 8 <= hk_min(to, ends[k]); at += 8)
                search->found += *(volatile uintptr_t *)at == search->word;
    }
    return 1; /* the program comes first */
}

static unsigned kept(void (*function)(int)) {
    search_t search = {.word = (uintptr_t)function};
    read_mappings();
    dl_iterate_phdr(look, &search);
    return search.found;
}

static volatile sig_atomic_t handled;
static void handle(int number) { handled = number; }
static void unused(int number) { (void)number; }
static void (*volatile planted)(int) = unused;

static void handlers(void) {
    const struct sigaction action = {.sa_handler = handle};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    guard();
    CHECK_EQ(kept(planted), 1);
    CHECK_EQ(kept(handle), 0);
    raise(SIGSEGV);
    CHECK_EQ(handled, SIGSEGV);
    raise(SIGBUS);
    CHECK_EQ(handled, SIGBUS);
}

#if HAS_DLOPEN
static void next_dlopen(void) {
    void (*opener)(int);
    *(void **)&opener = dlsym(RTLD_NEXT, "dlopen");
    CHECK(opener != NULL);
    for (unsigned i = 0; i < 2; i++)
        CHECK(dlopen("libm.so.6", RTLD_NOW) != NULL);
    CHECK_EQ(kept(opener), 0);
}
#else
static void next_dlopen(void) {}
#endif

int main(void) {
    if (hk_os_page_size() != 4096)
        return unit_skip("OS pages are larger");
    hak_free(hak_malloc(1));
    handlers();
    next_dlopen();
    return 0;
}
