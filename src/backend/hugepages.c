#include "backend/hugepages.h"

#include "os/os.h"

/* A touch that takes so many times what a small page takes has brought more than one; small ones are
 * clamped, since a burst is no price; their mean is over so many late ones. What a huge page takes at
 * once it saves later: only when it is several times as dear as the small ones has it been made, not
 * found. */
enum { FEW = 8, BURST = 4, LATE = 8, DEAR = 4 };
enum { FIRST_PAUSE = 4, LONGEST_PAUSE = 1024 };

static _Atomic uint64_t small_ns; /* atomic; of one OS page; 0: not known yet */
static atomic_uint pause, left;   /* atomic; superslabs that do without, in all and still */

bool hk_huge_pages_pay(void) {
    unsigned now = hk_load_relaxed(&left);
    if (now == 0)
        return true;
    hk_store_relaxed(&left, now - 1);
    return false;
}

static void note_huge(bool dear) {
    const size_t longer = hk_max(2 * hk_load_relaxed(&pause), FIRST_PAUSE);
    const unsigned next = dear ? (unsigned)hk_min(longer, LONGEST_PAUSE) : 0;
    hk_store_relaxed(&pause, next);
    hk_store_relaxed(&left, next);
}

void hk_huge_pages_note(uint64_t ns, bool asked) {
    const uint64_t one = hk_load_relaxed(&small_ns);
    if (asked && one != 0 && ns > FEW * one)
        note_huge(ns > DEAR * one * (HK_UNIT / hk_os_page_size()));
    else
        hk_store_relaxed(&small_ns,
                         one == 0 ? ns : ((LATE - 1) * one + hk_min(ns, BURST * one)) / LATE);
}
