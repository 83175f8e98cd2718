/* What memory is used for: walks over all slabs, and over all address space that is ours.
 *
 * Nothing is stopped for a walk, and only one superslab is locked at a time: of a process in which
 * no other thread allocates or frees the figures are exact; otherwise each is of a moment of its
 * own. Nothing is allocated. Called with no lock held. */
#pragma once

#include "backend/sizeclass.h"
#include "base/base.h"

/* Slabs of one class. Equation: active + free == slabs * blocks per slab. */
typedef struct {
    size_t slabs;
    size_t active; /* blocks not free: in use, or in a magazine */
    size_t free;   /* blocks */
    size_t remote; /* of those, not yet collected by the slab's owner */
} hk_class_usage_t;

/* Bytes, but for the counts of blocks. */
typedef struct {
    hk_class_usage_t classes[HK_CLASS_COUNT];
    size_t large_blocks, large_bytes; /* runs of slices */
    size_t huge_blocks, huge_bytes;
    size_t superslabs; /* mapped */
    size_t packs;      /* mapped, for blocks that share slices */
    size_t cached;     /* the region cache */
    size_t metadata;   /* mapped: descriptors, thread records, the page map */
    size_t peak;       /* the most that superslabs, huge blocks and the region cache have been */
} hk_usage_t;

/* From the allocator's own records. No system call. */
void hk_usage_count(hk_usage_t *usage);

/* What the system says about our address space, metadata included. Bytes. */
typedef struct {
    size_t resident; /* has memory */
    size_t free;     /* of that: nothing is live on the OS page */
    size_t lazy;     /* of that: the system may take it */
} hk_residency_t;

/* One system call for each 2 MiB, and one for each slab with free OS pages. */
void hk_usage_residency(hk_residency_t *residency);
