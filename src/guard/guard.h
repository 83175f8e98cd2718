/* What the guard checks, and with which secret: read from the options when the process starts, and
 * read-only from then on. */
#pragma once

#include "base/report.h"

/* Who gave a block out, and who takes it back. */
typedef enum {
    HK_BY_MALLOC = 1,
    HK_BY_NEW,
    HK_BY_NEW_ARRAY,
    HK_BY_ALIGNED_NEW,
    HK_BY_ALIGNED_NEW_ARRAY
} hk_by_t;

/* The block around an address, NULL where there is none or it is unknown, and its bytes as far as they are known; HK_NO_SIZE
 * where it is not in use. */
typedef struct {
    const char *block;
    size_t bytes;
} hk_around_t;

/* Who takes back and knows no size. */
#define HK_ANY_SIZE SIZE_MAX

/* const once set. */
typedef struct {
    /* Of this process. Apart, for a tail can be read. That takes the first three, of which it multiplies by two, odd ones: of
     * one alone, who has read the tail at one place would know those beside it. */
    uint64_t secret, mixes, stirs, seals, streams;
    size_t zeroed; /* bytes of a freed block that are cleared, and looked at before reuse */
    size_t quarantine_bytes; /* of one class, and thread */
    uint8_t tail;            /* bytes kept free behind each block, 1 or 0 */
    bool fences;             /* large blocks between inaccessible pages */
    bool sizes;              /* a size that free is told must be that of malloc */
    bool kinds;              /* and new, new[] and malloc are told apart */
} hk_guard_t;
/* On a page of its own, which cannot be written to once it is set. */
extern union hk_guard_page {
    _Alignas(4096) hk_guard_t settings;
    char page[4096];
} hk_guard_page;
#define hk_guard (&hk_guard_page.settings)

/* Whether operations are guarded. */
extern atomic_bool hk_guard_on;
HK_INLINE bool hk_guarded(void) { return !HK_FAST && hk_load_acquire(&hk_guard_on); }

/* The settings and the secret, from the options; once, for all that the guard does. As the guard `starts` the options are
 * looked at once more: samples may have been asked for before they had been read. */
void hk_guard_prepare(bool starts);

/* Guards all blocks from now on; those there are already as far as they are known. Called once, when
 * the process starts, by a thread that holds no lock and has entered its record where it has one. False: the
 * system refuses memory, and nothing is guarded. */
bool hk_guard_start(void);

/* Holds a free or a resize, and what it says but an address, to what is known of the block: a fault where it was given
 * out by somebody else's counterpart, or has another size, as far as that is looked at. */
void hk_guard_check_claims(const void *p, size_t bytes, hk_by_t was, hk_by_t by, size_t n);
/* The same, but a fault is only said. True: it was, and hk_fault_end() is due. */
bool hk_guard_denies(const void *p, size_t bytes, hk_by_t was, hk_by_t by, size_t n);

/* The same of the alignment that is said: all that is known of it is whether the block has it. */
void hk_guard_check_alignment(const void *p, size_t align);

/* What is wrong with the block at p (base/report.h), and its class where it is of one; returns where faults are only
 * to be reported. */
void hk_guard_fault(hk_fatal_t kind, const void *p, size_t bytes, ptrdiff_t at);

/* Where a new stream (base/random.h) starts: different for each one, and each process. */
uint64_t hk_guard_stream(void);

/* In a fork's child: its orders and places are not its parent's, nor another child's. Tails and seals are as they were. */
void hk_guard_forked(void);

/* The next number below `end` of one that all threads share. */
uint32_t hk_guard_chance(uint32_t end);

/* Puts the blocks into another order, though none far from where it was: so many at a time. */
enum { HK_SHUFFLED = 4 };
void hk_guard_shuffle(uint64_t *stream, void **blocks, unsigned n);
