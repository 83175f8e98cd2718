/* hakmem: a general-purpose memory allocator.
 *
 * Preloaded or linked, hakmem replaces malloc and its family and the C++ operators new and delete;
 * nothing of this header is needed for that. The hak_* functions below are the same allocator under
 * names of its own: blocks may be freed by either. (Not under valgrind, which replaces the malloc
 * family and leaves these alone.) All functions may be called by any thread. */
#ifndef HAKMEM_HAKMEM_H
#define HAKMEM_HAKMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* n bytes aligned to 16 (to 8 for n <= 8). hak_malloc(0) is a unique pointer. NULL and errno ENOMEM
 * when out of memory. The caller owns the block until it passes it to hak_free() or
 * hak_realloc(). */
void *hak_malloc(size_t n);

/* count * size bytes that read as zero; NULL and ENOMEM also where the product overflows. */
void *hak_calloc(size_t count, size_t size);

/* Changes the size of a block to n bytes; the contents up to the smaller size are kept and the
 * block may move. hak_realloc(NULL, n) allocates, hak_realloc(p, 0) frees and returns NULL. On
 * failure NULL, ENOMEM, and p is as it was. */
void *hak_realloc(void *p, size_t n);

/* n bytes aligned to `align`, a power of two; otherwise NULL and EINVAL. */
void *hak_aligned_alloc(size_t align, size_t n);

/* Frees a block; NULL is allowed; errno is kept. A double or invalid free of a block of ours ends
 * the process with one line on stderr: above 32 KiB at once, else when the thread's cache gives the
 * block back to its slab, but not if the block is allocated again before that. A pointer that is
 * not ours goes to the C library's free. */
void hak_free(void *p);

/* Bytes that may be used at p, at least what was asked for; 0 for NULL. */
size_t hak_usable_size(const void *p);

/* Bytes from p, any address, to the end of the block that it lies in: of those that were asked for where
 * blocks are guarded (docs/security.md), and 0 where such a one is not in use. SIZE_MAX where that is not
 * known: p lies in no block of hakmem's; in one of more than 32 KiB without fences, or well inside one with
 * fences; in a sample, the guard's or a profile's; or is a guarded block of no bytes. */
size_t hak_room(const void *p);

/* Reports an overflow of the block at p, and ends the process unless HAKMEM_ON_FAULT says otherwise, if n
 * bytes from p on reach beyond its end, as far as hak_room() knows that; a use after free, where blocks are
 * guarded and the block is not in use. */
void hak_check_range(const void *p, size_t n);

/* "MAJOR.MINOR.PATCH"; a constant. */
const char *hak_version(void);

/* 1 if this process's malloc is hakmem's, 0 if hakmem is loaded but malloc binds to something
 * else. */
int hak_is_serving(void);

/* Gives everything that is free back to the system, but for what the magazines of other running threads
 * hold, and their quarantines, as malloc_trim() does where malloc is hakmem's. 1 if anything went, else 0. Keeps errno. No
 * signal handler. */
int hak_trim(void);

/* Calls callback(wanted, context) when an allocation of `wanted` bytes is about to be refused: beyond
 * HAKMEM_LIMIT_MB, or because the system has no more. All that is free has gone back to the system by then, but not for more
 * than could be had at all. It may free and allocate, on the thread that allocates, while others allocate and may call it at
 * the same time; the allocation is then tried once more, and refused (NULL and ENOMEM) if there is still no room. What it
 * allocates itself may be refused, without another call. It must return, by no jump or exception; and what it changes of the program's is best
 * volatile or atomic, because compilers take it for granted that malloc calls nobody back. One for the process, its forked children
 * included, instead of the one before; NULL: none. Each call keeps some bytes for good. 0, or -1 and ENOMEM. */
typedef void (*hak_limit_callback_t)(size_t wanted, void *context);
int hak_limit_on_reached(hak_limit_callback_t callback, void *context);

/* Reads an option, or changes it while the process runs. `name` is that of the environment's
 * variable, e.g. "HAKMEM_SS_MEM_LEAN". `value` is what the variable would be set to; NULL only
 * reads. `out` receives the effective value as a string (empty for a text that is not set), the one
 * from before where both are given; NULL only writes. What is set here goes before the environment
 * and the profile. Any thread, but no signal handler. Keeps errno. Returns 0; or ENOENT: there is
 * no such option; EPERM: it is read when the process starts and cannot be changed; EINVAL: the
 * value is not allowed, or `name` is NULL; ERANGE: `out` is too small, and nothing has changed; ENOMEM: there is
 * no memory to keep the value in, or for the samples of HAKMEM_GUARD_SAMPLE, and nothing has changed; EBUSY: a fork handler asks, while the other threads are held, or the fork of another
 * thread has taken more than a second: ask again, for if that has begun in between some threads have not heard of the change. */
int hak_ctl(const char *name, const char *value, char *out, size_t out_bytes);

/* Writes all options with their effective values and where these come from to a file descriptor: as
 * "text", a line each, or as "json". Never allocates, keeps errno. Returns 0; or EINVAL: `format`
 * is another or NULL; or, where not all of it could be written to fd, why, as write(2) says. */
int hak_options_print(int fd, const char *format);

/* ---- statistics: docs/statistics.md ---- */

/* Bands of block sizes: C0 to C7 are blocks of up to 8, 16, 32 ... 1024 bytes. */
enum {
    HAK_BAND_MID = 8,   /* blocks above 1 KiB, up to 32 KiB */
    HAK_BAND_LARGE = 9, /* up to 2 MiB, in multiples of 64 KiB */
    HAK_BAND_HUGE = 10, /* all above, in multiples of 2 MiB */
    HAK_STATS_BANDS = 11
};

/* What there is of one band: bytes but for `blocks`. allocated + magazines == active;
 * active + free <= carved. */
typedef struct {
    uint64_t blocks;    /* how many the program holds */
    uint64_t allocated; /* of these, each counted at its full block size */
    uint64_t magazines; /* blocks ready in threads' magazines */
    uint64_t active;    /* blocks that are not free in their slab */
    uint64_t free;      /* blocks that are */
    uint64_t remote;    /* of these, not yet collected by the thread that owns the slab */
    uint64_t carved;    /* slabs, and blocks that are none's */
} hak_stats_band_t;

/* Bytes, and counts since the process began: a forked child counts from its own start. New fields
 * come at the end, so that programs built with an older header go on working. */
typedef struct {
    uint32_t size;    /* in: sizeof(hak_stats_t); out: how much of it has been filled */
    uint32_t version; /* of the meanings: 2 (in 1 a child's counts went on from its parent's) */
    hak_stats_band_t bands[HAK_STATS_BANDS];

    /* sums over the bands */
    uint64_t allocated, magazines, active, free, remote, carved;

    uint64_t metadata;      /* mapped for descriptors, thread records and the page map */
    uint64_t cached;        /* freed address space kept for reuse */
    uint64_t mapped;        /* all address space: what blocks lie in, cached, metadata */
    uint64_t resident;      /* of mapped: has memory, as the system says */
    uint64_t lazy;          /* of resident: given back, and not taken by the system yet */
    uint64_t dirty;         /* of resident: on OS pages with nothing live, and not lazy */
    uint64_t retained;      /* of mapped: has no memory */
    uint64_t peak_mapped;   /* the most that mapped has been */
    uint64_t peak_resident; /* of the whole process, as the system says */

    uint64_t region_maps, region_unmaps, maps, single_maps, huge_allocs, huge_failures;
    uint64_t madvise, madvise_enomem, madvise_other;
    uint64_t purge_runs, purge_calls, purge_bytes, purge_ns, superslabs_retired;
    uint64_t refills, remote_frees, collects, adoptions;

    /* calls to the system by kind: with maps and madvise above they add up to calls */
    uint64_t munmap, mremap, mprotect, mincore, futex, other_calls, calls;

    uint64_t classes_learned; /* sizes that were given a class of their own */
    uint64_t touched;         /* memory handed out that had to be brought in first */
    uint64_t guard_fences, guard_samples, faults; /* guarded blocks given out; lines about faults */

    uint64_t limit, held; /* the most that may be held, 0: no limit; and what is */
    uint64_t refused;     /* allocations that were, for want of memory */
} hak_stats_t;

/* Fills *stats, whose size the caller has set. Exact where no other thread allocates or frees
 * meanwhile; otherwise each figure is of a moment of its own. Asks the system about all of our
 * memory: some 15 ms for each GiB of small blocks. Allocates nothing. 0; or -1 and errno: EINVAL:
 * size is too small to be one; EBUSY: called by a signal handler that interrupted the allocator, or
 * beside a fork of another thread that takes more than a second. */
int hak_stats_get(hak_stats_t *stats);

typedef enum { HAK_STATS_TEXT, HAK_STATS_JSON, HAK_STATS_OPENMETRICS } hak_stats_format_t;

/* Writes the statistics to a file descriptor. 0; or -1 and errno: as above, EINVAL for an unknown
 * format, or what write(2) says. */
int hak_stats_print(int fd, hak_stats_format_t format);

/* ---- heap profiles: docs/statistics.md ---- */

/* Writes a heap profile to a file descriptor, as HAKMEM_PROF_FORMAT says, while HAKMEM_PROF is on. Allocates
 * nothing. 0; or -1 and errno: EINVAL: it is off, or what write(2) says. No signal handler. */
int hak_profile_write(int fd);

#ifdef __cplusplus
}
#endif

#endif
