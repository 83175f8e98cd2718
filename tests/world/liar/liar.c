// An allocator that breaks one promise of malloc at a time, chosen by WORLD_LIE, on top of the C
// library's. The world tests must catch every lie: a test that passes here proves nothing. Without
// a lie it keeps all promises, and claims to be hakmem so that those of hakmem are checked as well.
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);
int hak_is_serving(void);
void free_sized(void *p, size_t n);
void free_aligned_sized(void *p, size_t align, size_t n);
void cfree(void *p);

// In front of each block; base is what the C library gave us, NULL for a block inside another.
typedef struct {
    void *base;
    size_t n;
} header_t;

static const char *lie = NULL;
static atomic_ulong allocations;
static _Thread_local char *stolen __attribute__((tls_model("initial-exec")));

int hak_is_serving(void) { return 1; }

static bool lies(const char *name) {
    if (lie == NULL)
        lie = getenv("WORLD_LIE") != NULL ? getenv("WORLD_LIE") : "";
    return strcmp(lie, name) == 0;
}

static header_t *header_of(void *p) { return (header_t *)((char *)p - sizeof(header_t)); }

static void *refuse(void) {
    if (!lies("silent-refusal"))
        errno = ENOMEM;
    return NULL;
}

static void *place(char *at, void *base, size_t n) {
    *header_of(at) = (header_t){base, n};
    return at;
}

static void *allocate(size_t align, size_t n) {
    if (align > PTRDIFF_MAX / 4 || n > PTRDIFF_MAX - 2 * align - 256)
        return refuse();
    if (n > 100000 && lies("hang"))
        pause();
    if (n > 100000 && lies("crash"))
        raise(SIGSEGV);
    if (lies("unaligned-memalign") && align > 64)
        align = 64;
    if (align < 16)
        align = 16;
    unsigned long count = atomic_fetch_add(&allocations, 1);
    if (lies("overlap") && count % 100 == 99 && stolen != NULL && n < 500)
        return place(stolen + 512, NULL, n); // the middle of a block that may well be in use
    char *base = __libc_memalign(align, align + n + 64);
    if (base == NULL)
        return refuse();
    if (lies("overlap") && n >= 1024 && n <= 4096)
        stolen = base + align;
    return place(base + align + (lies("misaligned") && n >= 16 ? 8 : 0), base, n);
}

void *malloc(size_t n) { return allocate(16, n); }

void free(void *p) {
    if (lies("errno"))
        errno = EINVAL;
    if (p != NULL && header_of(p)->base != NULL && !lies("leak") && !lies("overlap"))
        __libc_free(header_of(p)->base);
}

void *calloc(size_t count, size_t n) {
    size_t total;
    if (__builtin_mul_overflow(count, n, &total) && !lies("overflow"))
        return refuse();
    void *p = malloc(total);
    return p == NULL ? NULL : memset(p, lies("dirty-calloc") && total > 500 ? 0xA5 : 0, total);
}

void *realloc(void *p, size_t n) {
    void *moved = malloc(n);
    if (p == NULL || moved == NULL)
        return moved;
    size_t old = header_of(p)->n;
    size_t common = old < n ? old : n;
    memcpy(moved, p, lies("forgetful-realloc") ? common / 2 : common);
    free(p);
    return moved;
}

void *reallocarray(void *p, size_t count, size_t n) {
    size_t total;
    return __builtin_mul_overflow(count, n, &total) ? refuse() : realloc(p, total);
}

void *memalign(size_t align, size_t n) {
    size_t power = 16;
    if (align > (size_t)PTRDIFF_MAX + !lies("alignment-errno")) {
        errno = EINVAL;
        return NULL;
    }
    while (power < align)
        power *= 2;
    return allocate(power, n);
}

void *aligned_alloc(size_t align, size_t n) { return memalign(align, n); }

int posix_memalign(void **out, size_t align, size_t n) {
    bool good = align % sizeof(void *) == 0 && align != 0 && (align & (align - 1)) == 0;
    if (!good && !lies("any-alignment"))
        return EINVAL;
    int saved = errno;
    void *p = align > PTRDIFF_MAX / 4 ? NULL : memalign(align, n);
    errno = lies("memalign-errno") ? ENOMEM : saved;
    if (p == NULL)
        return ENOMEM;
    *out = p;
    return 0;
}

void *valloc(size_t n) { return memalign(4096, n); }

void *pvalloc(size_t n) { return n > PTRDIFF_MAX ? refuse() : valloc((n + 4095) / 4096 * 4096); }

size_t malloc_usable_size(void *p) {
    if (p == NULL)
        return 0;
    return header_of(p)->n + (lies("boastful-size") ? 160 : 0) - (lies("short-size") ? 1 : 0);
}

void free_sized(void *p, size_t n) { (void)n, free(p); }
void free_aligned_sized(void *p, size_t align, size_t n) { (void)align, (void)n, free(p); }
void cfree(void *p) { free(p); }
