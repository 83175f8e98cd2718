#include "profile/leaks.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "backend/meta.h"
#include "backend/pagemap.h"
#include "base/calls.h"
#include "base/report.h"
#include "base/worker.h"
#include "os/os.h"
#include "os/stack.h"
#include "profile/sample.h"

/* ---- which blocks can still be reached: a search in a copy of the process ---- */

enum { MOST_OWN = 1 << 16, MOST_SECONDS = 30, PAGES_AT_ONCE = 1 << 13 };

/* The child's data. Blocks sorted by address; the allocator's own memory is in the list as blocks
 * that are reached and not scanned. */
typedef struct {
    size_t count, most, todo;
    uintptr_t sp;
    uint32_t *work; /* blocks that are reached and not scanned yet */
    hk_os_lines_t lines;
    int pagemap; /* /proc/self/pagemap, a word per page; -1: none */
    uint64_t pages[PAGES_AT_ONCE];
    hk_profile_block_t blocks[];
} look_t;

static _Noreturn void leave(int status) {
    for (;;)
        HK_CALL(other, syscall(SYS_exit_group, status));
}

static void add_own(const void *start, size_t bytes, void *argument) {
    look_t *l = argument;
    if (l->count == l->most)
        leave(1);
    l->blocks[l->count++] = (hk_profile_block_t){.p = (uintptr_t)start, .n = bytes};
}

/* Shell sort: the C library's qsort may allocate. */
static void sort(hk_profile_block_t *b, size_t n) {
    for (size_t gap = n / 2; gap != 0; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (size_t i = gap; i < n; i++) {
            const hk_profile_block_t one = b[i];
            size_t at = i;
            for (; at >= gap && b[at - gap].p > one.p; at -= gap)
                b[at] = b[at - gap];
            b[at] = one;
        }
}

/* A block of no bytes counts as one byte. */
static uintptr_t end_of(const hk_profile_block_t *b) { return b->p + hk_max(b->n, 1); }

/* How many blocks begin at or before w. */
static size_t up_to(const look_t *l, uintptr_t w) {
    size_t from = 0, to = l->count;
    while (from < to) {
        const size_t at = (from + to) / 2;
        if (l->blocks[at].p <= w)
            from = at + 1;
        else
            to = at;
    }
    return from;
}

static void scan(look_t *l, uintptr_t from, uintptr_t to) {
    const uintptr_t low = l->blocks[0].p;
    const uintptr_t high = end_of(&l->blocks[l->count - 1]);
    for (from = hk_align_up(from, sizeof from); from + sizeof from <= to; from += sizeof from) {
        const uintptr_t w = *(const uintptr_t *)from;
        if (w - low >= high - low)
            continue;
        hk_profile_block_t *b = &l->blocks[up_to(l, w) - 1];
        if (b->stack == NULL || w >= end_of(b))
            continue;
        b->stack = NULL;
        l->work[l->todo++] = (uint32_t)(b - l->blocks);
    }
}

/* Scans the parts of the range that belong to no block. */
static void scan_around(look_t *l, uintptr_t from, uintptr_t to) {
    while (from < to) {
        const size_t i = up_to(l, from);
        const uintptr_t end = i == 0 ? 0 : end_of(&l->blocks[i - 1]);
        const uintptr_t next = i < l->count ? hk_min(l->blocks[i].p, to) : to;
        if (from >= end)
            scan(l, from, next);
        from = from < end ? end : next;
    }
}

typedef void scan_t(look_t *l, uintptr_t from, uintptr_t to);

/* For ranges where the pagemap cannot tell: a page with a mark (hk_os_mark, or the C library's
 * below its stacks) cannot be read, and the pagemap shows it as swapped out. */
static void scan_readable(look_t *l, uintptr_t from, uintptr_t to, scan_t *how) {
    const size_t page = hk_os_page_size();
    for (uintptr_t end; from < to; from = end) {
        end = hk_min(to, (from / page + 1) * page);
        if (hk_os_readable((const void *)(from / page * page)))
            how(l, from, end);
    }
}

/* Calls `how` for pages that the process has written to. The others are zero, or a file's, and
 * unreadable if the file has become shorter. Without a pagemap, for all readable pages. */
static void scan_written(look_t *l, uintptr_t from, uintptr_t to, scan_t *how) {
    enum { OF_FILE = 61, SWAPPED, PRESENT }; /* bits */
    const size_t page = hk_os_page_size();
    while (from < to) {
        const size_t first = from / page, n = hk_min((to - 1) / page + 1 - first, PAGES_AT_ONCE);
        const size_t bytes = n * sizeof *l->pages, at = first * sizeof *l->pages;
        if (HK_CALL(other, syscall(SYS_pread64, l->pagemap, l->pages, bytes, at)) != (long)bytes) {
            scan_readable(l, from, to, how);
            return;
        }
        for (size_t i = 0; i < n; i++) {
            const uintptr_t end = hk_min(to, (first + i + 1) * page);
            const bool of_file = l->pages[i] >> OF_FILE & 1;
            if (l->pages[i] >> PRESENT & 1 && !of_file)
                how(l, from, end);
            else if (l->pages[i] >> SWAPPED & 1 && !of_file)
                scan_readable(l, from, end, how);
            from = end;
        }
    }
}

/* A small block is scanned at once: asking the pagemap would take longer. */
static void scan_block(look_t *l, const hk_profile_block_t *b) {
    if (b->n < HK_SLICE)
        scan(l, b->p, b->p + b->n);
    else
        scan_written(l, b->p, b->p + b->n, scan);
}

static bool is_on_a_signal_stack(void) {
    stack_t own;
    return HK_CALL(other, syscall(SYS_sigaltstack, NULL, &own)) == 0 &&
           (own.ss_flags & SS_ONSTACK) != 0;
}

/* Scans all mappings "START-END rw-p ...". Only the main thread's stack is cut at sp: other
 * threads' stacks may share a mapping with other data. Not on a signal stack, which may lie above
 * what it interrupted. */
static void look(look_t *l) {
    hk_meta_visit(add_own, l);
    hk_map_visit_own(add_own, l);
    sort(l->blocks, l->count);
    l->pagemap = HK_CALL(other, open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    if (!hk_os_mappings_open(&l->lines))
        leave(1);
    const bool on_another = is_on_a_signal_stack();
    for (char *s; (s = hk_os_line(&l->lines)) != NULL;) {
        const uintptr_t start = strtoull(s, &s, 16), end = strtoull(s + 1, &s, 16);
        const bool is_stack =
            start <= l->sp && l->sp < end && hk_os_line_has(s, "[stack]") && !on_another;
        if (s[1] == 'r' && s[2] == 'w' && s[4] == 'p')
            scan_written(l, is_stack ? l->sp : start, end, scan_around);
    }
    while (l->todo != 0)
        scan_block(l, &l->blocks[l->work[--l->todo]]);
}

/* By clone, not fork: fork handlers take locks, and would make the profile forget its blocks. Not
 * if the mappings cannot be read: a sandbox that forbids that, as sshd's, may end the process for
 * the clone. */
static pid_t copy_process(look_t *l) {
    const bool reads = hk_os_mappings_open(&l->lines);
    hk_os_lines_close(&l->lines);
    return reads ? (pid_t)HK_CALL(other, syscall(SYS_clone, 0, 0, 0, 0, 0)) : -1;
}

/* Runs in the copy. Unreadable memory ends it, without the program's handlers. */
static _Noreturn void look_and_exit(look_t *l) {
    const struct rlimit seconds = {MOST_SECONDS, MOST_SECONDS}, none = {0, 0};
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(SIGSEGV, &usual, NULL);
    sigaction(SIGBUS, &usual, NULL);
    HK_CALL(other, syscall(SYS_prlimit64, 0, RLIMIT_CPU, &seconds, NULL));
    HK_CALL(other, syscall(SYS_prlimit64, 0, RLIMIT_CORE, &none, NULL));
    look(l);
    leave(0);
}

static bool look_at(size_t known, uintptr_t sp) {
    const size_t most = known + MOST_OWN;
    const size_t bytes = sizeof(look_t) + most * (sizeof(hk_profile_block_t) + sizeof(uint32_t));
    look_t *l = HK_COUNTED(mmap, mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    pid_t child = -1;
    int status = -1;
    if (l != MAP_FAILED) {
        l->most = most;
        l->sp = sp;
        l->work = (uint32_t *)(void *)(l->blocks + most);
        l->count = hk_profile_blocks(l->blocks);
        child = copy_process(l);
    }
    hk_profile_thaw();
    if (child == 0)
        look_and_exit(l);
    if (child > 0 && HK_CALL(other, syscall(SYS_wait4, child, &status, __WALL, NULL)) == child &&
        status == 0)
        hk_profile_reached(l->blocks, l->count);
    if (l != MAP_FAILED)
        HK_COUNTED(munmap, munmap(l, bytes));
    return status == 0;
}

/* Sums up, for each stack, the unreachable blocks, into which no word of the process's writable
 * memory points. The allocator's own memory and unreached blocks do not count; the main thread's
 * stack counts from `sp` on if `sp` lies in it; other threads' registers are not seen. Signals are
 * blocked: a handler would run in the copy too, and one that does not restart calls would end the
 * wait for the copy. False: it could not be done. */
static bool find_unreached(uintptr_t sp) {
    const uint64_t before = hk_signals_block(HK_SIGNALS_FROM_OUTSIDE);
    size_t known;
    const bool looked = hk_profile_freeze(&known) && look_at(known, sp);
    hk_signals_block(before);
    return looked;
}

/* ---- the report ---- */

enum { MOST_TOLD = 32 };

typedef struct {
    const hk_profile_stack_t *stack;
    uint64_t objects, bytes; /* at the time of the search */
} leak_t;

static bool has_word(const char *name, const char *words) {
    for (size_t n; name != NULL && *words != '\0'; words += n + (words[n] == ',')) {
        n = strcspn(words, ",");
        if (n != 0 && memmem(name, strlen(name), words, n) != NULL)
            return true;
    }
    return false;
}

static bool is_ignored(const hk_profile_stack_t *s, const char *words) {
    Dl_info info;
    for (unsigned i = 0; i < s->count; i++)
        if (dladdr((char *)s->frames[i] - 1, &info) != 0 &&
            (has_word(info.dli_sname, words) || has_word(info.dli_fname, words)))
            return true;
    return false;
}

/* Finds the largest stacks that are not ignored; looks up names only for a stack that would be
 * among them. Returns how many. */
static unsigned find(leak_t *found, bool unreached, const char *ignored) {
    unsigned count = 0;
    for (const hk_profile_stack_t *s = hk_profile_stacks(); s != NULL; s = s->before) {
        const hk_profile_sums_t *sums = unreached ? &s->unreached : &s->in_use;
        const leak_t one = {s, hk_profile_objects(sums), hk_load_relaxed(&sums->all_bytes)};
        if (hk_load_relaxed(&sums->objects) == 0 ||
            (count == MOST_TOLD && one.bytes <= found[count - 1].bytes) || is_ignored(s, ignored))
            continue;
        unsigned at = count < MOST_TOLD ? count++ : count - 1;
        for (; at != 0 && found[at - 1].bytes < one.bytes; at--)
            found[at] = found[at - 1];
        found[at] = one;
    }
    return count;
}

static void say(uint64_t objects, uint64_t bytes, const char *what) {
    hk_say("hakmem: leaks: %lu byte%s in %lu block%s%s", bytes, bytes == 1 ? "" : "s", objects,
           objects == 1 ? "" : "s", what);
}

bool hk_leaks_report(const char *ignored, bool unreachable) {
    const bool unreached = unreachable && find_unreached((uintptr_t)__builtin_frame_address(0));
    leak_t found[MOST_TOLD];
    const unsigned told = find(found, unreached, ignored);
    uint64_t objects = 0, bytes = 0;
    for (unsigned i = 0; i < told; i++) {
        objects += found[i].objects;
        bytes += found[i].bytes;
        say(found[i].objects, found[i].bytes, ", allocated by");
        hk_stack_print(found[i].stack->frames, found[i].stack->count);
    }
    if (told == 0)
        return false;
    hk_line_t line = {0};
    hk_line_put(&line, "%s%s, still in use%s",
                told < MOST_TOLD ? " in all" : " of these stacks, the largest",
                hk_profile_mean() != 0 ? ", estimated from samples" : "",
                unreached     ? ", and nothing that can be reached points there"
                : unreachable ? "; whether anything points there could not be looked at"
                              : "; whether anything points there was not looked at");
    say(objects, bytes, hk_line_text(&line));
    return true;
}
