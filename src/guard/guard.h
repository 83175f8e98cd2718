/* What the guard checks, and its secrets: set when the process starts, read-only from then on. */
#pragma once

#include <signal.h>

#include "base/report.h"
#include "os/os.h"

/* The function that gave a block out, or takes it back. */
typedef enum {
    HK_BY_MALLOC = 1,
    HK_BY_NEW,
    HK_BY_NEW_ARRAY,
    HK_BY_ALIGNED_NEW,
    HK_BY_ALIGNED_NEW_ARRAY
} hk_by_t;

/* The block around an address, or NULL if there is none or it is unknown; and its bytes as far as
 * they are known, HK_NO_SIZE if it is not in use. */
typedef struct {
    const char *block;
    size_t bytes;
} hk_around_t;

/* The size of a free that does not say one. */
#define HK_ANY_SIZE SIZE_MAX

/* const once set. */
typedef struct {
    /* Random numbers of this process. Tails use the first three, seals and streams others: a
     * program can read its tails. Two factors, both odd: with one, a reader of one tail could
     * compute those nearby. */
    uint64_t secret, mixes, stirs, seals, streams;
    size_t zeroed; /* bytes of a freed block that are cleared, and looked at before reuse */
    size_t quarantine_bytes; /* per class and thread */
    uint8_t tail;            /* bytes kept free behind each block, 1 or 0 */
    bool fences;             /* large blocks between inaccessible pages */
    bool sizes;              /* check the size that a sized free claims */
    bool kinds;              /* tell new, new[] and malloc apart */
} hk_guard_t;
/* On a page of its own, which is read-only except while a part of it is set. */
extern HK_HIDDEN union hk_guard_page {
    _Alignas(4096) struct {
        hk_guard_t settings;
        /* guard/sample.c: how the program handled SIGSEGV and SIGBUS before */
        struct sigaction before[2];
    };
    char page[4096];
} hk_guard_page;
#define hk_guard (&hk_guard_page.settings)

extern HK_HIDDEN atomic_bool hk_guard_on;
HK_INLINE bool hk_guarded(void) { return !HK_FAST && hk_load_acquire(&hk_guard_on); }

/* Sets the options and the secrets, once. When the guard `starts`, the options are read again:
 * samples may have been asked for earlier. */
void hk_guard_prepare(bool starts);

/* Changes the access to that page, where the system's pages are of its size. False: refused. */
bool hk_guard_protect(hk_access_t access);

/* Guards all blocks from now on, existing ones as far as they are known. Called once, when the
 * process starts, by a thread that holds no lock and has entered its record if it has one. False:
 * the system refuses memory, and nothing is guarded. */
bool hk_guard_start(void);

/* Checks the claims of a free or a resize: reports a fault if another kind of function gave the
 * block out, or if it has another size, as far as the options ask for that. */
void hk_guard_check_claims(const void *p, size_t bytes, hk_by_t was, hk_by_t by, size_t n);
/* The same, but only prints the fault. True: it did, and the caller must call hk_fault_end(). */
bool hk_guard_denies(const void *p, size_t bytes, hk_by_t was, hk_by_t by, size_t n);

/* The same for a claimed alignment: checks that the block's address has it. */
void hk_guard_check_alignment(const void *p, size_t align);

/* Reports a fault of the block at p (base/report.h), with its class's size if it has one. Returns
 * only if faults are only to be reported. */
void hk_guard_fault(hk_fatal_t kind, const void *p, size_t bytes, ptrdiff_t at);

/* The start of a new random stream (base/random.h), different for each stream and process. */
uint64_t hk_guard_stream(void);

/* In a fork's child: new random streams and places, so that nobody can predict them from the parent
 * or another child. Tails and seals stay as they were. */
void hk_guard_forked(void);

/* A random number below `end`, from a stream that all threads share. */
uint32_t hk_guard_chance(uint32_t end);

/* Shuffles the blocks, each within a group of HK_SHUFFLED. */
enum { HK_SHUFFLED = 4 };
void hk_guard_shuffle(uint64_t *stream, void **blocks, unsigned n);
