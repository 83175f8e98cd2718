/* System calls are counted by kind. Fails if a call is missed, or counted as another kind. */
#include "base/calls.h"

#include "base/lock.h"
#include "check.h"
#include "os/os.h"

static uint64_t counts_before[HK_COUNT_COUNT];

static void read_all(void) { memcpy(counts_before, hk_counters, sizeof counts_before); }

/* Fails unless exactly n calls of this kind, and none of any other, were counted since the last
 * check. */
static void check_made(unsigned kind, uint64_t n) {
    static const unsigned kinds[] = {
#define HK_CALL_KIND(kind, name, doc) HK_CALL_##kind,
#include "base/counters.def"
    };
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        CHECK_EQ(hk_load_relaxed(&hk_counters[kinds[i]]) - counts_before[kinds[i]],
                 kinds[i] == kind ? n : 0);
    read_all();
}

int main(void) {
    enum { SPUN = 0, SLEPT = 128 }; /* tries, base/lock.c */
    const size_t page = hk_os_page_size();
    _Atomic uint32_t word = 1;
    unsigned char resident[1];
    read_all();
    char *p = hk_os_map(page, page), *q = hk_os_map(page, page), *reserved = hk_os_reserve(page);
    CHECK(p != NULL && q != NULL && reserved != NULL);
    check_made(HK_CALL_mmap, 3);
    CHECK(hk_os_protect(reserved, page, HK_READ_WRITE));
    check_made(HK_CALL_mprotect, 1);
    CHECK_EQ(hk_os_advise(p, page, HK_PURGE), 0);
    check_made(HK_CALL_madvise, 1);
    CHECK(hk_os_move(p, page, q, page));
    check_made(HK_CALL_mremap, 1);
    CHECK(hk_os_look(&(hk_os_look_t){-1}, q, page, resident));
    check_made(HK_CALL_mincore, 1);
    CHECK(hk_os_unmap(q, page) && hk_os_unmap(reserved, page));
    check_made(HK_CALL_munmap, 2);
    CHECK(!hk_os_protect(q, page, HK_READ_WRITE)); /* a refused call counts too */
    check_made(HK_CALL_mprotect, 1);
    hk_os_wait(&word, 0, 0);
    hk_os_wake(&word);
    check_made(HK_CALL_futex, 2);
    hk_lock_pause(SPUN);
    check_made(HK_CALL_other, 0);
    hk_lock_pause(SLEPT);
    check_made(HK_CALL_futex, 1);
#if HK_DEBUG
    hk_os_fail_after(0);
    CHECK(hk_os_map(page, page) == NULL);
    hk_os_fail_after(-1);
    check_made(HK_CALL_mmap, 0);
#endif
    return 0;
}
