/* Stands in for the allocator: passes all calls on, and writes the proof line unless built SILENT. */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

#ifdef APART /* in a section beside .text, as the allocator's own (tools/order.ld) */
#define PLACE __attribute__((section("every"), noinline))
#else
#define PLACE
#endif

PLACE void *malloc(size_t n) { return __libc_malloc(n); }
PLACE void free(void *p) { __libc_free(p); }
void *calloc(size_t n, size_t size) { return __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
void *aligned_alloc(size_t alignment, size_t n) { return __libc_memalign(alignment, n); }

int posix_memalign(void **p, size_t alignment, size_t n) {
    *p = __libc_memalign(alignment, n);
    return *p == NULL ? 12 : 0;
}

/* The C library's own chunk header, in front of the block. */
size_t malloc_usable_size(void *p) {
    return p == NULL ? 0 : (((size_t *)p)[-1] & ~(size_t)7) - 8;
}

const char *hak_version(void) { return "0.0-stub"; }

/* Refuses one option, as the allocator refuses those that it does not know. */
__attribute__((constructor)) static void refuse(void) {
    const char *value = getenv("HAKMEM_REFUSED");
    if (value != NULL) {
        fprintf(stderr, "hakmem: warning: HAKMEM_REFUSED=%s: no such option; ignored\n", value);
    }
}

/* One option that has no effect, as the allocator says of those that another one suppresses. */
__attribute__((constructor)) static void idle(void) {
    const char *value = getenv("HAKMEM_IDLE");
    if (value != NULL) {
        fprintf(stderr, "hakmem: note: HAKMEM_IDLE=%s has no effect: planted\n", value);
    }
}

#ifndef SILENT
__attribute__((constructor)) static void prove(void) {
    char exe[512] = {0}, line[1000], settings[200] = "";
    const char *none = getenv("HAKMEM_IDLE"), *other = getenv("HAKMEM_OTHER");
    if (none != NULL) {
        snprintf(settings, sizeof settings, ",\"settings\":{\"HAKMEM_IDLE\":\"%s\"%s%s%s}", none,
                 other ? ",\"HAKMEM_OTHER\":\"" : "", other ? other : "", other ? "\"" : "");
    }
    const char *file = getenv("HAKMEM_PROOF");
    if (file == NULL || readlink("/proc/self/exe", exe, sizeof exe - 1) < 0) {
        return;
    }
    const int length = snprintf(line, sizeof line,
                                "{\"hakmem\":\"0.0-stub\",\"pid\":%d,\"exe\":\"%s\","
                                "\"serving\":true,\"allocator\":\"hakmem\"%s}\n",
                                (int)getpid(), exe, settings);
    const int out = open(file, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (out < 0 || write(out, line, (size_t)length) != length || close(out) != 0) {
        abort();
    }
}
#endif
