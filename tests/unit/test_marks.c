/* Marks in the page tables (Linux 6.13): fences and holes that split no mapping. Where the system has no marks,
 * protection does the same and splits mappings; then only that half of the test runs. */
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/region.h"
#include "backend/superslab_own.h"
#include "faults.h"
#include "guard/fence.h"
#include "guard/header.h"
#include "os/os.h"

/* The most mappings that ten blocks may take. */
enum { WITH_MARKS = 2, WITHOUT = 25 };

enum { BLOCKS = 300, BYTES = 40000 };
static child_t child;
static char *blocks[BLOCKS];

/* The next mark is refused with this errno; 0: it is not refused. */
static int next_refusal;

int madvise(void *p, size_t n, int advice) {
    enum { GUARD_INSTALL = 102 };
    if (advice == GUARD_INSTALL && next_refusal != 0) {
        errno = next_refusal;
        next_refusal = 0;
        return -1;
    }
    int (*real)(void *, size_t, int);
    *(void **)&real = dlsym(RTLD_NEXT, "madvise");
    return real(p, n, advice);
}

static void write_there(void *p) { *(volatile char *)p = 1; }

static int mappings_there(void) {
    static hk_os_lines_t lines;
    int n = 0;
    CHECK(hk_os_mappings_open(&lines));
    while (hk_os_line(&lines) != NULL)
        n++;
    hk_os_lines_close(&lines);
    return n;
}

/* A marked page cannot be accessed, here or in a forked child; once unmarked it reads as zero. */
static void marks_hold(void) {
    const size_t page = hk_os_page_size();
    char *p = hk_os_map(3 * page, page);
    memset(p, 1, 3 * page);
    CHECK(hk_os_mark(p + page, page));
    CHECK(hk_os_readable(p) && !hk_os_readable(p + page) && hk_os_readable(p + 2 * page));
    child_run(&child, write_there, p + page);
    CHECK(child.status != 0);
    CHECK(hk_os_unmark(p, 3 * page));
    CHECK(p[page - 1] == 1 && p[page] == 0 && p[2 * page - 1] == 0 && p[2 * page] == 1);
    hk_os_unmap(p, 3 * page);
}

static bool is_fenced(const char *p, size_t n) {
    const size_t page = hk_os_page_size();
    const hk_header_t *header = hk_header_of(p);
    return header != NULL && !hk_os_readable(hk_header_body(header) - page) && hk_os_readable(p) &&
           hk_os_readable((const char *)(((uintptr_t)p + n - 1) & ~(uintptr_t)7)) &&
           !hk_os_readable((const char *)hk_align_up((uintptr_t)p + n, page));
}

/* Returns how many more mappings there are than before; negative where a sanitizer gave up some of its own. */
static int take_blocks(void) {
    hak_trim();
    const int before = mappings_there();
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_malloc(BYTES);
        blocks[i][0] = 1;
        CHECK(hk_map_kind(blocks[i]) == HK_KIND_FENCED && is_fenced(blocks[i], BYTES));
    }
    return mappings_there() - before;
}

static void free_blocks(void) {
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    hak_trim();
}

/* A block that is resized in place, or reuses a longer one's memory: its fence always lies where its body ends. */
static void fences_move(void) {
    for (unsigned i = 0, state = 1; i < BLOCKS; i++) {
        state = state * 1103515245 + 12345;
        const size_t n = 50000 + state / 65536 % 50000;
        char *p = hak_malloc(n);
        CHECK(is_fenced(p, n) && hk_is_zero(p, n / 8 * 8));
        memset(p, 1, n);
        for (size_t more = n; more < n + 12000; more += 3000) {
            p = hak_realloc(p, more);
            CHECK(!hk_os_readable(hk_header_body(hk_header_of(p)) + hk_header_of(p)->body_bytes));
            p[more - 1] = 1;
        }
        p = hak_realloc(p, n / 4 * 3);
        CHECK(!hk_os_readable((char *)hk_align_up((uintptr_t)p + n / 4 * 3, hk_os_page_size())));
        hak_free(p);
    }
}

/* Counts the superslabs that have holes, and those whose holes are marks; checks that no hole is readable. */
static unsigned holes(unsigned *marked) {
    unsigned n = 0;
    *marked = 0;
    hk_lock(&hk_pool_lock);
    for (hk_superslab_t *ss = NULL; (ss = hk_superslab_next_locked(ss)) != NULL;) {
        n += ss->holes != 0;
        *marked += ss->marked;
        for (uint32_t left = ss->holes; left != 0; left &= left - 1)
            CHECK(!hk_os_readable(ss->base + (size_t)__builtin_ctz(left) * HK_SLICE));
    }
    hk_unlock(&hk_pool_lock);
    return n;
}

/* Superslabs come and go: a new superslab in reused memory has no mark left from the holes of the one before, or the
 * writes below would fault. */
static void holes_come_and_go(bool marks) {
    enum { SMALL = 30000, MANY = 12 * (int)(HK_UNIT / SMALL) };
    static char *small[MANY];
    unsigned marked, with;
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            small[i] = hak_malloc(SMALL);
            memset(small[i], 1, SMALL);
        }
        with = holes(&marked);
        CHECK(hk_region_scatters() && with != 0);
        CHECK(marks ? marked != 0 : round == 0 || marked < with);
        for (unsigned i = 0; i < MANY; i++)
            hak_free(small[i]);
        if (round % 2 != 0) /* in other rounds their memory is kept and reused */
            hak_trim();
    }
}

/* A refusal for want of memory, or of an unmapped range, concerns that range only: the block has fences by
 * protection, and the next blocks have marks. */
static void refuse_one(void) {
    const size_t page = hk_os_page_size();
    char *p = hk_os_map(page, page);
    hk_os_unmap(p, page);
    CHECK(!hk_os_mark(p, page) && hk_os_marks());
    p = hak_malloc(BYTES);
    hak_trim(); /* else a freed fenced block might be reused, without a new mark */
    next_refusal = ENOMEM;
    char *q = hak_malloc(BYTES), *r = hak_malloc(BYTES);
    CHECK(next_refusal == 0 && hk_os_marks());
    CHECK(is_fenced(q, BYTES) && !hk_header_of(q)->marked);
    CHECK(is_fenced(r, BYTES) && hk_header_of(r)->marked);
    hak_free(p), hak_free(q), hak_free(r);
}

/* EINVAL, as for locked memory or from a system without marks: no mark is tried from then on. */
static void refuse_marks(void) {
    const size_t page = hk_os_page_size();
    char *p = hk_os_map(page, page);
    next_refusal = EINVAL;
    CHECK(!hk_os_mark(p, page) && !hk_os_marks());
    hk_os_unmap(p, page);
}

/* The system stops half-way, at a locked page: the pages before it lose their marks again. It counts as a refusal
 * for good, as in refuse_marks(). */
static void one_is_locked(void) {
    const size_t page = hk_os_page_size();
    char *p = hk_os_map(3 * page, page);
    memset(p, 1, 3 * page);
    if (syscall(SYS_mlock, p + page, page) == 0) {
        CHECK(!hk_os_mark(p, 3 * page));
        CHECK(hk_os_readable(p) && hk_os_readable(p + page) && hk_os_readable(p + 2 * page));
        CHECK(!hk_os_marks());
    }
    hk_os_unmap(p, 3 * page);
}

/* A block with a locked page can be made shorter, and longer again. */
static void locked_blocks_are_cut(void) {
    const size_t page = hk_os_page_size(), n = 40 * page;
    char *p = hak_malloc(n);
    memset(p, 1, n);
    if (syscall(SYS_mlock, hk_align_up((uintptr_t)p + n / 8 * 7, page), page) == 0) {
        p = hak_realloc(p, n / 8 * 5);
        CHECK(p[0] == 1 && p[n / 8 * 5 - 1] == 1);
        p = hak_realloc(p, n);
        memset(p + n / 8 * 5, 1, n - n / 8 * 5);
    }
    hak_free(p);
}

int main(void) {
    guard();
    if (!hk_guard->fences)
        return unit_skip("OS pages are too large for fences");
    if (is_emulated("mappings"))
        return UNIT_SKIPPED;
    const bool marks = hk_os_marks();
    if (marks) {
        marks_hold();
        fences_move();
        holes_come_and_go(true);
        refuse_one();
        CHECK(take_blocks() < BLOCKS * WITH_MARKS / 10);
        locked_blocks_are_cut();
        one_is_locked();
    } else {
        CHECK(take_blocks() < BLOCKS * WITHOUT / 10);
    }
    refuse_marks(); /* existing blocks keep their marks */
    fences_move();
    free_blocks();
    CHECK(take_blocks() < BLOCKS * WITHOUT / 10);
    fences_move();
    free_blocks();
    holes_come_and_go(false);
}
