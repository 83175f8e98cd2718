/* Recording: every operation of every thread goes into a file, from which the laboratory makes a trace
 * (docs/replay.md). Owns the file's mapping; the watched front calls it; it knows nothing of blocks.
 *
 * The file is chunks of HK_RECORD_CHUNK bytes. The first is the head; each of the others is one thread's, or
 * that of several, one after the other, whose operations lie there in order behind a line that says whose they are.
 * A thread maps its chunk as it begins and unmaps it when it is full, so that what was recorded outlives the process
 * however it ends, and costs it little memory. An operation's number says where it belongs among those of all threads: it is
 * drawn after the block was given out, and before it is taken back. */
#pragma once

#include "base/base.h"
#include "os/ticks.h"

#define HK_RECORD_CHUNK (32 * HK_KIB)
#define HK_RECORD_MAGIC UINT64_C(0x3164726365726b68) /* "hkrecrd1", as bytes */

/* The head, as the file has it. Of a process that did not come to its end, end_ns is 0. What has a number
 * from `stopped` on may be without its neighbours. */
typedef struct {
    _Atomic uint64_t magic;      /* atomic: written last */
    uint64_t chunk_bytes;        /* const */
    uint64_t pid;                /* const */
    uint64_t begin_ns;           /* const */
    _Atomic uint64_t end_ns;     /* atomic: who ends the process writes */
    _Atomic uint64_t chunks;     /* atomic: asked for, the head included */
    _Atomic uint64_t operations; /* atomic: numbers drawn, and what came after the last one kept */
    _Atomic uint64_t stopped; /* atomic: the first number that is not kept; UINT64_MAX: all are */
    uint64_t most_chunks;     /* const */
    _Atomic uint32_t tick;    /* atomic: when a time was noted last */
} hk_record_head_t;

/* An operation; 0 where none was written yet. `where`: 48 bits of address, 3 of kind, 5 of the alignment's
 * logarithm, 8 of size; `what`: the number, and 32 bits of size above it. A chunk's first line has the
 * number of its first thread in `where`, above it that of its last one if it is another, and in `what` the time
 * of the operation behind it. */
typedef struct {
    _Atomic uint64_t where; /* atomic: written last */
    uint64_t what;
} hk_record_line_t;

/* Kinds, to be added. */
enum { HK_RECORD_GIVEN = 1, HK_RECORD_TAKEN = 2, HK_RECORD_RESIZED = 4 };

/* All of them: whose is what follows in the chunk, and when, as a first line says it. There is one where another thread
 * goes on, and before the first operation that any thread does within a tick, so that no pause is missed. */
enum { HK_RECORD_THREAD = 7 };

/* Begins a file of at most so many bytes: the path has %p replaced by the process's number, or it is put
 * behind it. NULL, or what is wrong. Called once; the path stays the caller's. */
const char *hk_record_start(const char *path, uint64_t bytes);

/* What is done to p, as a line has it but for the size: kinds, and of what is given the alignment. */
HK_INLINE uint64_t hk_record_where(unsigned kinds, const void *p, size_t align) {
    return (uintptr_t)p | (uint64_t)kinds << 48 |
           (uint64_t)hk_min((unsigned)__builtin_ctzll(align), 31u) << 51;
}

/* const while it runs: the first chunk; room for all lies behind it. */
extern __attribute__((visibility("hidden"))) hk_record_head_t *hk_record_head;

/* The half is enough: where a pause is a round number of its turns, the next tick tells. */
HK_INLINE uint32_t hk_record_tick(void) { return (uint32_t)hk_os_ticks() >> HK_OS_TICKS_MS; }

HK_INLINE void hk_record_write(hk_record_head_t *head, hk_record_line_t *at, uint64_t where,
                               size_t n) {
    at->what = (uint64_t)n << 32 | hk_add_relaxed(&head->operations, (uint64_t)1);
    hk_store_release(&at->where, where);
}

/* Whether the line is none: behind a chunk's last, or NULL. */
HK_INLINE bool hk_record_is_end(const hk_record_line_t *at) {
    return ((uintptr_t)at & (HK_RECORD_CHUNK - 1)) == 0;
}

void hk_record_note_slow(void **own, uint64_t where, size_t n);

/* Notes an operation, of n bytes. `own` is the thread's, NULL at first; or it is NULL, for a thread that has none.
 * Any thread; a signal handler where none of its thread's is under way. Keeps errno. */
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

/* The thread ends. */
void hk_record_thread_ends(void **own);

/* In a fork's child, for each thread: what was its parent's is left alone. A file of its own is begun by the
 * next operation. */
void hk_record_forked(void **own);

/* The process ends by itself. */
void hk_record_end(void);
