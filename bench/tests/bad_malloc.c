/*
 * A broken allocator, to see that the benchmarks' --smoke runs can fail: every fourth malloc (or
 * kin) writes into the last byte of a block that is in use. Preloaded by smoke_notices.py.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *last_byte; /* lock: of the newest block, while it is alive */
static void *newest;             /* lock */
static unsigned count;           /* lock */

static void *next_symbol(const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    if (symbol == NULL) {
        abort();
    }
    return symbol;
}

static void *note(void *block, size_t size) {
    pthread_mutex_lock(&lock);
    if (newest != NULL && count++ % 4 == 3) {
        *last_byte ^= 0xFF;
    }
    newest = size != 0 ? block : NULL;
    last_byte = newest != NULL ? (unsigned char *)block + size - 1 : NULL;
    pthread_mutex_unlock(&lock);
    return block;
}

static void forget(const void *block) {
    pthread_mutex_lock(&lock);
    if (block == newest) {
        newest = NULL;
    }
    pthread_mutex_unlock(&lock);
}

void *malloc(size_t size) {
    void *(*real)(size_t) = (void *(*)(size_t))(uintptr_t)next_symbol("malloc");
    return note(real(size), size);
}

void *realloc(void *block, size_t size) {
    void *(*real)(void *, size_t) = (void *(*)(void *, size_t))(uintptr_t)next_symbol("realloc");
    forget(block);
    return note(real(block, size), size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    void *(*real)(size_t, size_t) =
        (void *(*)(size_t, size_t))(uintptr_t)next_symbol("aligned_alloc");
    return note(real(alignment, size), size);
}

void free(void *block) {
    void (*real)(void *) = (void (*)(void *))(uintptr_t)next_symbol("free");
    forget(block);
    real(block);
}
