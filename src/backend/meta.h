/* The allocator's own memory: descriptors and thread records. It is handed out and never taken
 * back: what lives here is type-stable, which the remote-free protocol depends on. */
#pragma once

#include "base/base.h"

/* Zeroed memory aligned to a cache line, never freed; NULL: the system refused. Any thread. */
void *hk_meta_alloc(size_t bytes);

/* A stock of descriptors of one kind, linked through a field of each. */
typedef struct {
    const size_t bytes, field; /* of a descriptor; offset of the field in it */
    char *unused;              /* lock: meta */
    _Atomic(void *) all;       /* atomic: any thread; all descriptors ever made, linked by `next` */
} hk_stock_t;
typedef struct {
    void *unused_next; /* in use: its user; else lock: meta */
    void *next;        /* const once set */
} hk_stocked_t;
#define HK_STOCK(type, name)                                                                       \
    { .bytes = sizeof(type), .field = offsetof(type, name) }

/* An unused descriptor, as it was left, or a new one, zeroed; NULL: out of memory. Any thread. */
void *hk_stock_take(hk_stock_t *stock);
void hk_stock_put(hk_stock_t *stock, void *descriptor);

/* From now on all new memory lies between inaccessible pages, unless mappings are short. Called
 * once. */
void hk_meta_fence(void);

/* Calls `visit` for each range mapped for metadata. No lock: also in a signal handler. */
void hk_meta_visit(void (*visit)(const void *start, size_t bytes, void *argument), void *argument);
