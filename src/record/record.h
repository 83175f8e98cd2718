/* Recording: writes every operation of every thread into a file, from which the laboratory makes a
 * trace (docs/replay.md). Owns the file's mapping; called by the watched front; knows nothing of
 * blocks.
 *
 * The file consists of chunks of HK_RECORD_CHUNK bytes. The first is the head. Each other chunk
 * belongs to a thread, or to several, one after the other, and holds their operations in order
 * behind a line that says whose they are. A thread maps its chunk when it begins it and unmaps it
 * when it is full: so records outlive the process however it ends, and take little memory.
 * Operations are numbered across all threads: a number is drawn after a block was given out, and
 * before it is taken back. */
#pragma once

#include "base/base.h"
#include "os/ticks.h"

#define HK_RECORD_CHUNK (32 * HK_KIB)
#define HK_RECORD_MAGIC UINT64_C(0x3164726365726b68) /* "hkrecrd1", as bytes */

/* The head, in the file's format. end_ns is 0 if the process did not end by itself. An operation
 * with a number from `stopped` on may lack its neighbours. */
typedef struct {
    _Atomic uint64_t magic;      /* atomic: written last */
    uint64_t chunk_bytes;        /* const */
    uint64_t pid;                /* const */
    uint64_t begin_ns;           /* const */
    _Atomic uint64_t end_ns;     /* atomic: the thread that ends the process writes */
    _Atomic uint64_t chunks;     /* atomic: number asked for, with the head */
    _Atomic uint64_t operations; /* atomic: numbers drawn, and lost operations counted */
    _Atomic uint64_t stopped;    /* atomic: the first number that may be lost; UINT64_MAX: none */
    uint64_t most_chunks;        /* const */
    _Atomic uint32_t tick;       /* atomic: tick of the last time line */
} hk_record_head_t;

/* An operation; 0: not written yet. `where`: 48 bits of address, 3 of kind, 5 of the alignment's
 * logarithm, 8 of size; `what`: the number, and above it 32 bits of size. A chunk's first line: in
 * `where` the number of its first thread and, above it, that of its last one if another; in `what`
 * the time of the next operation. */
typedef struct {
    _Atomic uint64_t where; /* atomic: written last */
    uint64_t what;
} hk_record_line_t;

/* Kinds; bits. */
enum { HK_RECORD_GIVEN = 1, HK_RECORD_TAKEN = 2, HK_RECORD_RESIZED = 4 };

/* All bits: a line that says whose operations follow and when, as a first line does. It is written
 * when another thread takes over the chunk, and before the first operation of any thread within a
 * tick, so that no pause is missed. */
enum { HK_RECORD_THREAD = 7 };

/* Begins a file of at most `bytes`; %p in the path is replaced by the process's number, which is
 * appended if there is none. Returns NULL or what is wrong. Called once; `path` stays the caller's
 * and must last. */
const char *hk_record_start(const char *path, uint64_t bytes);

/* A line's `where` without the size: kinds, address, and the alignment of a block given out. */
HK_INLINE uint64_t hk_record_where(unsigned kinds, const void *p, size_t align) {
    return (uintptr_t)p | (uint64_t)kinds << 48 |
           (uint64_t)hk_min((unsigned)__builtin_ctzll(align), 31u) << 51;
}

/* const while it runs: the first chunk; addresses for all chunks lie behind it. */
extern HK_HIDDEN hk_record_head_t *hk_record_head;

/* 32 bits are enough: a pause that wraps around to the same tick is noticed at the next one. */
HK_INLINE uint32_t hk_record_tick(void) { return (uint32_t)hk_os_ticks() >> HK_OS_TICKS_MS; }

HK_INLINE void hk_record_write(hk_record_head_t *head, hk_record_line_t *at, uint64_t where,
                               size_t n) {
    at->what = (uint64_t)n << 32 | hk_add_relaxed(&head->operations, (uint64_t)1);
    hk_store_release(&at->where, where);
}

/* Whether `at` is no line: behind a chunk's last, or NULL. */
HK_INLINE bool hk_record_is_end(const hk_record_line_t *at) {
    return ((uintptr_t)at & (HK_RECORD_CHUNK - 1)) == 0;
}

void hk_record_note_slow(void **own, uint64_t where, size_t n);

/* Records an operation of n bytes. *own is the thread's next line, NULL at first; `own` is NULL for
 * a thread that has none. Any thread; a signal handler only if its thread is in no operation. Keeps
 * errno. */
HK_INLINE void hk_record_note(void **own, uint64_t where, size_t n) {
    hk_record_line_t *at = own != NULL ? *own : NULL;
    hk_record_head_t *head = hk_record_head;
    if (HK_UNLIKELY(hk_record_is_end(at) || n > UINT32_MAX ||
                    hk_record_tick() != hk_load_relaxed(&head->tick))) {
        hk_record_note_slow(own, where, n);
        return;
    }
    *own = at + 1;
    hk_record_write(head, at, where, n);
}

void hk_record_thread_ends(void **own);

/* In a fork's child, for each thread: leaves the parent's file alone. The next operation begins a
 * new file. */
void hk_record_forked(void **own);

/* The process ends by itself: completes the head. */
void hk_record_end(void);
