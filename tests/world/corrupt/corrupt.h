// Shared by the corruption programs. Each announces the pointer that the message must name and
// then misuses it; whoever survives exits 0, which the runner counts as a failure.
#ifndef WORLD_CORRUPT_H
#define WORLD_CORRUPT_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// The promise for a small block: misuse is found after at most this many further frees of its
// size class by the same thread, or when the thread ends.
enum { PROMISED_FREES = 2000 };

// What a program exits with that got nowhere: nothing was found, but nothing was to be had either.
enum { DEFUSED = 7 };

static void *spares[PROMISED_FREES];

static inline void make_spares(size_t n) {
    for (size_t i = 0; i < PROMISED_FREES; i++)
        spares[i] = malloc(n);
}

static inline void free_spares(size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        free(spares[i]);
}

// A spare of n bytes that lies just behind another one.
static inline char *behind(size_t n) {
    for (size_t i = 0; i < PROMISED_FREES; i++)
        for (size_t k = 0; k < PROMISED_FREES; k++)
            if ((uintptr_t)spares[i] - (uintptr_t)spares[k] - n < n / 2)
                return spares[i];
    return spares[0];
}

// One of many blocks of n bytes, all of which were freed: those of its slab with it.
static inline char *freed_with_its_slab(size_t n) {
    enum { BLOCKS = 9000 };
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(n);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return blocks[BLOCKS / 2];
}

// The address offset bytes behind p, in a way that hides the crime from the compiler.
static inline void *at_offset(void *p, size_t offset) {
    char *hidden = p;
    __asm__ volatile("" : "+r"(hidden));
    return hidden + offset;
}

// Also which file answers malloc: nothing is concluded about another one.
static inline void *announce(void *p) {
    Dl_info found;
    void *function = dlsym(RTLD_DEFAULT, "malloc");
    if (function == NULL || dladdr(function, &found) == 0)
        exit(2);
    dprintf(1, "%p\nmalloc is in %s\n", p, found.dli_fname);
    return p;
}

// Runs misuse(p) in a thread and waits for the thread's end.
static inline void in_thread(void *(*misuse)(void *), void *p) {
    pthread_t id;
    if (pthread_create(&id, NULL, misuse, p) != 0 || pthread_join(id, NULL) != 0)
        exit(2);
}

#endif
