/* hakmem: a general-purpose memory allocator.
 *
 * A preloaded or linked hakmem replaces the malloc family and C++'s operators new and delete; a
 * program needs nothing of this header for that. The hak_* functions are the same allocator under
 * names of its own, and either family frees the blocks of the other. (Not under valgrind, which
 * replaces the malloc family but not hak_*.) Any thread may call any of these functions. */
#ifndef HAKMEM_HAKMEM_H
#define HAKMEM_HAKMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns n bytes aligned to 16 (to 8 for n <= 8); for n = 0 a unique pointer. Out of memory: NULL
 * and errno ENOMEM. The caller owns the block until it passes it to hak_free() or hak_realloc(). */
void *hak_malloc(size_t n);

/* Returns count * size bytes that read as zero. NULL and ENOMEM also if the product overflows. */
void *hak_calloc(size_t count, size_t size);

/* Changes the size of a block to n bytes. The contents up to the smaller size are kept; the block
 * may move. hak_realloc(NULL, n) allocates, hak_realloc(p, 0) frees p and returns NULL. On failure
 * it returns NULL with ENOMEM and leaves p as it was. */
void *hak_realloc(void *p, size_t n);

/* Returns n bytes aligned to `align`, a power of two; for any other `align` NULL and EINVAL. Out of
 * memory as hak_malloc(). */
void *hak_aligned_alloc(size_t align, size_t n);

/* Frees a block; NULL is allowed. Keeps errno. A double or invalid free of a hakmem block ends the
 * process with one line on stderr: above 32 KiB at once; below, when the thread's cache gives the
 * block back to its slab, and not at all if the block is allocated again before that. A pointer
 * that is not hakmem's is passed to the C library's free. */
void hak_free(void *p);

/* The bytes that may be used at p: at least as many as were asked for. 0 for NULL. */
size_t hak_usable_size(const void *p);

/* The bytes from p, which may be any address, to the end of the block that contains it. Where
 * blocks are guarded (docs/security.md), only the bytes that were asked for count, and a block that
 * is not in use has 0. SIZE_MAX means unknown, as where p is in no block of hakmem's; in a block of
 * more than 32 KiB without fences, or well inside one with fences; in a sample of the guard or of a
 * heap profile; or in a guarded block of no bytes. */
size_t hak_room(const void *p);

/* Checks that n bytes from p on lie within their block, as far as hak_room() knows. If they do not,
 * reports an overflow, or a use after free if the block is guarded and not in use, and ends the
 * process unless HAKMEM_ON_FAULT says otherwise. */
void hak_check_range(const void *p, size_t n);

/* "MAJOR.MINOR.PATCH", a string constant. */
const char *hak_version(void);

/* 1 if this process's malloc is hakmem's; 0 if hakmem is loaded but malloc binds to another
 * allocator. */
int hak_is_serving(void);

/* Gives all free memory back to the system, except what the magazines and quarantines of other
 * running threads hold. malloc_trim() does the same where malloc is hakmem's. Returns 1 if any
 * memory was given back, else 0. Keeps errno. Do not call it from a signal handler. */
int hak_trim(void);

/* Sets the callback for allocations that are about to be refused, because of HAKMEM_LIMIT_MB or
 * HAKMEM_LIMIT_PERCENT or because the system has no more memory: callback(wanted, context), for an
 * allocation of `wanted` bytes. By then all free memory has gone back to the system, unless
 * `wanted` is more than could be had at all. Afterwards the allocation is tried once more, and
 * refused (NULL and ENOMEM) if there is still no room.
 *
 * The callback runs on the allocating thread, and on several threads at a time if several are
 * refused. It may free and allocate; its own allocations may be refused without another call. It
 * must return, not leave by a jump or an exception. Program data that it changes should be volatile
 * or atomic: compilers assume that malloc calls no code of the program.
 *
 * A process has one callback, which forked children inherit; a new one replaces it, NULL removes
 * it. Each call with a callback uses a few bytes for good. Returns 0; or -1 and errno: ENOMEM, or
 * EBUSY as hak_ctl(). */
typedef void (*hak_limit_callback_t)(size_t wanted, void *context);
int hak_limit_on_reached(hak_limit_callback_t callback, void *context);

/* Reads an option, or changes it while the process runs. `name` is the name of the environment
 * variable, e.g. "HAKMEM_SS_MEM_LEAN". `value` is what the variable would be set to; NULL only
 * reads. `out` receives the effective value as a string (empty for a text that is not set), the
 * previous value if `value` is given too; NULL only writes. A value set here takes precedence over
 * the environment and the profile. Any thread may call it, but no signal handler. Keeps errno.
 *
 * Returns 0, or:
 *   ENOENT  there is no such option
 *   EPERM   the option is read when the process starts and cannot be changed
 *   EINVAL  the value is not allowed, or `name` is NULL
 *   ERANGE  `out` is too small; nothing has changed
 *   ENOMEM  no memory to keep the value in, or for the samples of HAKMEM_GUARD_SAMPLE; nothing has
 *           changed
 *   EBUSY   a fork handler called it, while all other threads are held; or another thread's fork
 *           has taken more than a second. Call again: if that fork began during the call, the option
 *           is set but some threads have not heard of it */
int hak_ctl(const char *name, const char *value, char *out, size_t out_bytes);

/* Writes all options to a file descriptor, with their effective values and where each comes from.
 * `format` is "text", one option per line, or "json". Never allocates, keeps errno. Returns 0;
 * EINVAL if `format` is anything else or NULL; or the error of write(2) if not all could be
 * written. */
int hak_options_print(int fd, const char *format);

/* ---- statistics: docs/statistics.md ---- */

/* Bands of block sizes. Bands 0 to 7 are C0 to C7: blocks of up to 8, 16, 32 ... 1024 bytes. */
enum {
    HAK_BAND_MID = 8,   /* blocks above 1 KiB, up to 32 KiB */
    HAK_BAND_LARGE = 9, /* up to 2 MiB, in multiples of 64 KiB */
    HAK_BAND_HUGE = 10, /* above 2 MiB, in multiples of 2 MiB */
    HAK_STATS_BANDS = 11
};

/* One band. All fields but `blocks` are bytes. allocated + magazines == active; active + free <=
 * carved. */
typedef struct {
    uint64_t blocks;    /* number of blocks that the program holds */
    uint64_t allocated; /* their bytes, each counted at its full block size */
    uint64_t magazines; /* free blocks in threads' magazines */
    uint64_t active;    /* blocks that are not free in their slab: the two above */
    uint64_t free;      /* blocks that are free in their slab */
    uint64_t remote;    /* of `free`: not yet collected by the thread that owns the slab */
    uint64_t carved;    /* all slabs, and all blocks outside of slabs */
} hak_stats_band_t;

/* Bytes, and counts since the process began; a forked child counts from its own start. New fields
 * are added at the end, so programs built with an older header keep working. */
typedef struct {
    uint32_t size;    /* in: sizeof(hak_stats_t); out: how many bytes were filled */
    uint32_t version; /* of the fields' meanings: 2 (in 1 a child's counts included its parent's) */
    hak_stats_band_t bands[HAK_STATS_BANDS];

    /* sums over all bands */
    uint64_t allocated, magazines, active, free, remote, carved;

    uint64_t metadata;      /* mapped for descriptors, thread records and the page map */
    uint64_t cached;        /* freed address space kept for reuse */
    uint64_t mapped;        /* all address space: that of blocks, cached, metadata */
    uint64_t resident;      /* of mapped: has memory, according to the system */
    uint64_t lazy;          /* of resident: given back, not yet taken by the system */
    uint64_t dirty;         /* of resident: on OS pages without live data, and not lazy */
    uint64_t retained;      /* of mapped: has no memory */
    uint64_t peak_mapped;   /* the highest value of mapped */
    uint64_t peak_resident; /* of the whole process, according to the system */

    uint64_t region_maps, region_unmaps, maps, single_maps, huge_allocs, huge_failures;
    uint64_t madvise, madvise_enomem, madvise_other;
    uint64_t purge_runs, purge_calls, purge_bytes, purge_ns, superslabs_retired;
    uint64_t refills, remote_frees, collects, adoptions;

    /* system calls by kind; with maps and madvise above they add up to calls */
    uint64_t munmap, mremap, mprotect, mincore, futex, other_calls, calls;

    uint64_t classes_learned;                     /* sizes that were given a class of their own */
    uint64_t touched;                             /* bytes handed out that had no memory before */
    uint64_t guard_fences, guard_samples, faults; /* guarded blocks given out; faults reported */

    uint64_t limit, held; /* the most that may be held, 0: no limit; what is held */
    uint64_t refused;     /* allocations that were refused for want of memory */
} hak_stats_t;

/* Fills *stats; the caller has set stats->size. The figures are exact if no other thread allocates
 * or frees meanwhile; otherwise each is of a moment of its own. Asks the system about all memory of
 * hakmem's: some 15 ms for each GiB of small blocks. Allocates nothing. Returns 0; or -1 and errno:
 * EINVAL: `size` is too small for any version of the struct; EBUSY: a signal handler that
 * interrupted the allocator called it, or another thread's fork takes more than a second. */
int hak_stats_get(hak_stats_t *stats);

typedef enum { HAK_STATS_TEXT, HAK_STATS_JSON, HAK_STATS_OPENMETRICS } hak_stats_format_t;

/* Writes the statistics to a file descriptor. Returns 0; or -1 and errno: EBUSY as above, EINVAL
 * for an unknown format, or the error of write(2). */
int hak_stats_print(int fd, hak_stats_format_t format);

/* ---- heap profiles: docs/statistics.md ---- */

/* Writes a heap profile to a file descriptor, in the format of HAKMEM_PROF_FORMAT, while
 * HAKMEM_PROF is on. Allocates nothing. Returns 0; or -1 and errno: EINVAL if it is off, or the
 * error of write(2). Do not call it from a signal handler. */
int hak_profile_write(int fd);

#ifdef __cplusplus
}
#endif

#endif
