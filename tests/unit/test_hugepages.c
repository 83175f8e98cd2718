/* Whether huge pages pay, from the times of first touches: dear ones stop the asking, longer each time;
 * a cheap one ends that; bursts and a system that gives none change nothing. */
#include "backend/hugepages.h"

#include "check.h"
#include "os/os.h"

enum { SMALL_NS = 500 };

static uint64_t as_small(void) { return SMALL_NS * (HK_UNIT / hk_os_page_size()); }

/* So many superslabs do without before one is asked for again. */
static unsigned pause_now(void) {
    unsigned n = 0;
    while (!hk_huge_pages_pay())
        n++;
    return n;
}

int main(void) {
    hk_huge_pages_note(100 * SMALL_NS, true); /* nothing is known yet: taken for a small page's */
    for (unsigned i = 0; i < 100; i++)
        hk_huge_pages_note(SMALL_NS, false);
    CHECK_EQ(pause_now(), 0);
    hk_huge_pages_note(3 * as_small(), true); /* what it takes now it saves later */
    CHECK_EQ(pause_now(), 0);
    unsigned before = 0;
    for (unsigned i = 0; i < 20; i++) {
        hk_huge_pages_note(6 * as_small(), true);
        unsigned now = pause_now();
        CHECK(now > before || now == 1024);
        before = now;
    }
    CHECK_EQ(before, 1024);
    hk_huge_pages_note(as_small() / 2, true);
    CHECK_EQ(pause_now(), 0);
    hk_huge_pages_note(6 * as_small(), true);
    CHECK_EQ(pause_now(), 4);           /* from the beginning */
    hk_huge_pages_note(SMALL_NS, true); /* the system had none */
    CHECK_EQ(pause_now(), 0);
    hk_huge_pages_note(1000 * as_small(), false); /* a burst moves the mean by less than half */
    hk_huge_pages_note(6 * as_small(), true);
    CHECK_EQ(pause_now(), 8); /* since the last cheap one it is the second */
    return 0;
}
