/* The allocator's own memory: descriptors and thread records. It is handed out, never taken back:
 * what lives here is type-stable, which the remote-free protocol depends on. */
#pragma once

#include "base/base.h"

/* Zeroed memory aligned to a cache line, for ever; NULL when the system refuses. Any thread. */
void *hk_meta_alloc(size_t bytes);

/* Descriptors of one kind, which find each other through a field of each. */
typedef struct {
    const size_t bytes, field; /* of a descriptor; and where in it the field is */
    char *unused;              /* lock: meta */
    _Atomic(void *) all;       /* atomic: all that ever were, linked by `next` */
} hk_stock_t;
typedef struct {
    void *unused_next; /* whoever uses the descriptor; of one that nobody uses, lock: meta */
    void *next;        /* const once set */
} hk_stocked_t;
#define HK_STOCK(type, name)                                                                       \
    { .bytes = sizeof(type), .field = offsetof(type, name) }

/* One that is used no more, as it was left, or a new one, zeroed; NULL: out of memory. Any thread. */
void *hk_stock_take(hk_stock_t *stock);
void hk_stock_put(hk_stock_t *stock, void *descriptor);

/* From now on what is handed out lies between inaccessible pages. Called once. */
void hk_meta_fence(void);

/* Calls `visit` for each range mapped for metadata. Nothing is locked: also in a signal handler. */
void hk_meta_visit(void (*visit)(const void *start, size_t bytes, void *argument), void *argument);
