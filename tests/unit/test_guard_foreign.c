/* In a guarded process, what is forged to look like a chunk of the C library's allocator does not reach that
 * allocator if it lies on the first thread's stack, or reaches into memory of the allocator's own. */
#include <pthread.h>

#include "backend/hoard.h"
#include "backend/pagemap.h"
#include "faults.h"
#include "guard/header.h"
#include "os/stack.h"
#include "profile/sample.h"
#include "profile/table.h"

enum { CHUNK_WORDS = 12, BYTES = 48, USED_BEFORE = 1, IS_MAPPED = 2 };

/* Makes words[2...] a chunk of BYTES in use. */
static void forge(volatile size_t *words) {
    words[0] = 0;
    words[1] = BYTES | USED_BEFORE;
    words[1 + BYTES / sizeof *words] = BYTES | USED_BEFORE;
}

/* ---- stacks ---- */

#if !defined(__SANITIZE_THREAD__) /* for which a forked child makes no threads */
static void *free_beside(void *p) {
    hak_free(p);
    return NULL;
}

static void free_in_a_thread(void *p) {
    pthread_t other;
    CHECK(pthread_create(&other, NULL, free_beside, p) == 0 && pthread_join(other, NULL) == 0);
}

/* AddressSanitizer would put the words elsewhere. */
__attribute__((no_sanitize("address"))) static void the_first_stack(void) {
    _Alignas(16) volatile size_t words[CHUNK_WORDS] = {0};
    void *p = (void *)(uintptr_t)&words[2];
    forge(words);
    CHECK_FAULT(free_it, p, "invalid free", "");
    CHECK_FAULT(free_in_a_thread, p, "invalid free", "");
}
#else
static void the_first_stack(void) {}
#endif

/* ---- own memory ---- */

static void forge_and_free(void *p) {
    forge((size_t *)p - 2);
    hak_free(p);
}

/* A page just before memory of the allocator's own claims to be a mapping that reaches into it. */
static void reaches_into(const char *own, const char *what) {
#ifdef __GLIBC__ /* chunks of other C libraries are not recognized */
    const size_t page = hk_os_page_size();
    size_t *head = hk_os_map_at((uintptr_t)own - page, page);
    if (head == NULL) {
        dprintf(STDERR_FILENO, "SKIPPED: there is something before %s\n", what);
        return;
    }
    head[1] = (2 * page) | IS_MAPPED;
    CHECK_FAULT(free_it, head + 2, "invalid free", "");
    CHECK(hk_os_unmap(head, page));
#else
    (void)own, (void)what;
#endif
}

static void header_tables(void) {
    char *block = hak_malloc(100000), *header = (char *)hk_header_at(block);
    const size_t page = hk_os_page_size();
    CHECK(block != NULL && header != NULL);
    char *on_its_page = (char *)((uintptr_t)header & ~(page - 1));
    CHECK_FAULT(forge_and_free, on_its_page + 64, "invalid free", "");
    const char *table = hk_load_relaxed(&hk_map_leaf(block)->headers);
    reaches_into(table - page, "a table of headers");
    hak_free(block);
}

static const char *piece;
static void note_piece(const void *start, size_t bytes, void *unused) {
    (void)bytes, (void)unused;
    piece = start;
}

static void the_hoard(void) {
    char *body = hk_os_map(HK_MIB, hk_os_page_size());
    CHECK(body != NULL);
    memset(body, 1, HK_MIB);
    CHECK(hk_os_protect(body, HK_MIB, HK_NO_ACCESS));
    if (hk_hoard_take_in(body, HK_MIB)) {
        hk_hoard_visit(note_piece, NULL);
        CHECK(piece != NULL);
        reaches_into(piece, "the hoard");
        hk_hoard_trim();
    }
    CHECK(hk_os_unmap(body, HK_MIB));
}

/* Mapped before the flat page map, and so behind it, unless that is aligned to huge pages: then there is a gap. */
static size_t *early;

static void the_flat_map(void) {
    const size_t page = hk_os_page_size();
    const uintptr_t end = (uintptr_t)hk_flat.bytes + HK_MAP_BYTES;
    size_t *head = (uintptr_t)early == end ? early : hk_os_map_at(end, page);
    if (!hk_map_has_flat() || head == NULL) {
        dprintf(STDERR_FILENO, "SKIPPED: there is something behind the flat page map\n");
        return;
    }
#ifdef __GLIBC__
    head[0] = page;
    head[1] = (2 * page) | IS_MAPPED;
    CHECK_FAULT(free_it, head + 2, "invalid free", "");
#endif
}

static void tables_of_a_profile(void *unused) {
    (void)unused;
    if (!hk_stack_prepare())
        return;
    CHECK(hak_ctl("HAKMEM_PROF", "1", NULL, 0) == 0);
    hk_profile_start(0, 12345);
    hak_free(hidden(hak_malloc(100)));
    char *likes = (char *)(uintptr_t)hk_load_relaxed(&hk_profile_likes);
    CHECK(likes != NULL);
    CHECK_FAULT(forge_and_free, likes + 64, "invalid free", "");
}

int main(void) {
    static child_t child;
    early = hk_os_map(hk_os_page_size(), hk_os_page_size());
    hak_free(hak_malloc(1));
    guard();
    the_flat_map();
    the_first_stack();
    if (hk_guard->fences)
        header_tables();
    the_hoard();
    child_run(&child, tables_of_a_profile, NULL);
    CHECK_TEXT(child.text, "");
    CHECK(child.status == 0);
    return 0;
}
