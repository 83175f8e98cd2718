#include "os/os.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>

#include "base/calls.h"
#include "os/symbols.h"

_Atomic size_t hk_os_page_bytes;

HK_COLD size_t hk_os_read_page_size(void) {
    size_t bytes = getauxval(AT_PAGESZ);
    hk_store_relaxed(&hk_os_page_bytes, bytes);
    return bytes;
}

/* Asserts that sizes and addresses are multiples of the OS page. */
HK_WALKER static void are_pages(const void *p, size_t bytes) {
    hk_assert(hk_is_aligned((uintptr_t)p, hk_os_page_size()));
    hk_assert(bytes != 0 && hk_is_aligned(bytes, hk_os_page_size()));
}

#if HK_DEBUG
static atomic_long fail_countdown = -1;

void hk_os_fail_after(long calls) { hk_store_relaxed(&fail_countdown, calls); }

static bool may_ask(void) {
    long left = hk_load_relaxed(&fail_countdown);
    if (left > 0)
        hk_store_relaxed(&fail_countdown, left - 1);
    return left != 0;
}
#else
HK_INLINE bool may_ask(void) { return true; }
#endif

/* The mapping is private unless the flags contain MAP_SHARED. */
static void *map(void *hint, size_t bytes, int protection, int flags) {
    if (!may_ask())
        return NULL;
    flags |= MAP_ANONYMOUS | ((flags & MAP_SHARED) != 0 ? 0 : MAP_PRIVATE);
    void *p = HK_KEEP_ERRNO(HK_COUNTED(mmap, mmap(hint, bytes, protection, flags, -1, 0)));
    return p == MAP_FAILED ? NULL : p;
}

/* Maps at `where` or nowhere. `where` is passed as a hint, so no other mapping is replaced, and no
 * more addresses are needed than asked for. */
static char *map_there(uintptr_t where, size_t bytes, int protection, int flags) {
    char *p = map((void *)where, bytes, protection, flags);
    if (p == NULL || (uintptr_t)p == where)
        return p;
    hk_os_unmap(p, bytes);
    return NULL;
}

/* Maps enough to contain an aligned range and unmaps the ends. */
static char *map_and_trim(size_t bytes, size_t align, int protection, int flags) {
    size_t slack = align - hk_os_page_size();
    char *p = map(NULL, bytes + slack, protection, flags);
    if (p == NULL)
        return NULL;
    char *aligned = (char *)hk_align_up((uintptr_t)p, align);
    size_t before = (size_t)(aligned - p);
    if (before != 0)
        hk_os_unmap(p, before);
    if (slack != before)
        hk_os_unmap(aligned + bytes, slack - before);
    return aligned;
}

void *hk_os_map_at(uintptr_t where, size_t bytes) {
    hk_walk(are_pages((void *)where, bytes));
    return map_there(where, bytes, PROT_READ | PROT_WRITE, 0);
}

/* Mostly one of the first two attempts succeeds. The third needs extra room, which a limit may
 * refuse; then lower addresses are tried. */
static HK_NOINLINE void *map_aligned(size_t bytes, size_t align, int protection, int flags) {
    enum { HINTS = 16 };
    hk_assert(hk_is_pow2(align) && align >= hk_os_page_size());
    char *p = map(NULL, bytes, protection, flags), *aligned;
    if (p == NULL || ((uintptr_t)p & (align - 1)) == 0)
        return p;
    hk_os_unmap(p, bytes);
    const uintptr_t below = (uintptr_t)p & ~(uintptr_t)(align - 1);
    if ((aligned = map_there(below, bytes, protection, flags)) != NULL ||
        (aligned = map_and_trim(bytes, align, protection, flags)) != NULL)
        return aligned;
    for (uintptr_t i = 1; i <= HINTS && aligned == NULL && below > i * align; i++)
        aligned = map_there(below - i * align, bytes, protection, flags);
    return aligned;
}

void *hk_os_map(size_t bytes, size_t align) {
    return map_aligned(bytes, align, PROT_READ | PROT_WRITE, 0);
}

void *hk_os_fence(size_t bytes, size_t align) {
    hk_walk(are_pages(NULL, bytes));
    return map_aligned(bytes, align, PROT_NONE, MAP_NORESERVE);
}

void *hk_os_reserve(size_t bytes) {
    hk_walk(are_pages(NULL, bytes));
    return map(NULL, bytes, PROT_READ, MAP_NORESERVE);
}

/* Only ENOMEM, or EAGAIN for locked memory, means that it is too much. Other refusals, as for want
 * of a file for shared memory, say nothing about that. */
static bool grants(size_t bytes, int flags) {
    const int saved = errno;
    errno = ENOMEM;
    void *p = may_ask()
                  ? HK_COUNTED(mmap, mmap(NULL, bytes, PROT_NONE, MAP_ANONYMOUS | flags, -1, 0))
                  : MAP_FAILED;
    const bool is_much = p == MAP_FAILED && (errno == ENOMEM || errno == EAGAIN);
    errno = saved;
    return !is_much && (p == MAP_FAILED || hk_os_unmap(p, bytes));
}

bool hk_os_grants_addresses(size_t bytes) { return grants(bytes, MAP_PRIVATE | MAP_NORESERVE); }

/* Shared memory is accounted for when it is mapped, whatever its protection; MAP_NORESERVE exempts
 * it, unless accounting is strict. */
bool hk_os_grants_commitment(size_t bytes) { return grants(bytes, MAP_SHARED | MAP_NORESERVE); }

bool hk_os_grants_memory(size_t bytes) {
    return grants(hk_align_up(bytes, hk_os_page_size()), MAP_SHARED);
}

static uint64_t limit_of(int what) {
    struct rlimit limit;
    const int error = HK_KEEP_ERRNO(HK_CALL(other, syscall(SYS_prlimit64, 0, what, NULL, &limit)));
    return error == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

uint64_t hk_os_address_limit(void) { return limit_of(RLIMIT_AS); }
uint64_t hk_os_data_limit(void) { return limit_of(RLIMIT_DATA); }
uint64_t hk_os_file_limit(void) { return limit_of(RLIMIT_FSIZE); }

_Static_assert(HK_NO_ACCESS == PROT_NONE && HK_READ == PROT_READ &&
                   HK_READ_WRITE == (PROT_READ | PROT_WRITE),
               "as the system calls them");

bool hk_os_protect(void *p, size_t bytes, hk_access_t access) {
    hk_walk(are_pages(p, bytes));
    return may_ask() && HK_KEEP_ERRNO(HK_COUNTED(mprotect, mprotect(p, bytes, (int)access))) == 0;
}

atomic_bool hk_os_settled;

bool hk_os_settle(char *from, char *to, hk_access_t access) {
    const size_t bytes = (size_t)(to - from);
    return !hk_load_relaxed(&hk_os_settled) ||
           !hk_is_aligned(bytes | (uintptr_t)from, hk_os_page_size()) || bytes == 0 ||
           hk_os_protect(from, bytes, access);
}

/* Replaces the range by a fresh inaccessible mapping, in one call. */
bool hk_os_close(void *p, size_t bytes) {
    hk_walk(are_pages(p, bytes));
    return map(p, bytes, PROT_NONE, MAP_NORESERVE | MAP_FIXED) != NULL;
}

/* ---- marks ---- */

enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103 }; /* MADV_GUARD_*, which not all headers have */
enum { NOT_ASKED, MARKS, NO_MARKS };
static atomic_uint marks; /* atomic: any thread; one of these */

/* A refusal for want of memory, or of an unmapped range, says nothing about other ranges. */
static bool advises(void *p, size_t bytes, int advice) {
    hk_walk(are_pages(p, bytes));
    const int why = may_ask() ? hk_os_advise(p, bytes, (hk_advice_t)advice) : ENOMEM;
    if (HK_UNLIKELY(why != 0 && why != ENOMEM && why != EAGAIN))
        hk_store_relaxed(&marks, (unsigned)NO_MARKS);
    return why == 0;
}

/* Tries a mark: an emulator may accept any advice and do nothing, but a real mark drops the page's
 * contents. */
static HK_COLD void ask_for_marks(void) {
    const size_t page = hk_os_page_size();
    volatile char *p = map(NULL, page, PROT_READ | PROT_WRITE, 0);
    if (p == NULL)
        return; /* ask again later */
    *p = 1;
    void *start = (void *)(uintptr_t)p;
    if (advises(start, page, GUARD_INSTALL) && advises(start, page, GUARD_REMOVE))
        hk_store_relaxed(&marks, (unsigned)(*p == 0 ? MARKS : NO_MARKS));
    hk_os_unmap(start, page);
}

bool hk_os_marks(void) {
    if (HK_UNLIKELY(hk_load_relaxed(&marks) == NOT_ASKED))
        ask_for_marks();
    return hk_load_relaxed(&marks) == MARKS;
}

/* On refusal the marks are removed: of several mappings the system may refuse one (locked memory)
 * after it has marked those before. */
bool hk_os_mark(void *p, size_t bytes) {
    if (HK_LIKELY(advises(p, bytes, GUARD_INSTALL)))
        return true;
    (void)hk_os_advise(p, bytes, (hk_advice_t)GUARD_REMOVE);
    return false;
}
bool hk_os_unmark(void *p, size_t bytes) { return advises(p, bytes, GUARD_REMOVE); }

/* An invalid request: the kernel reads the set at p, and fails with EFAULT if it cannot, before it
 * rejects the request. */
bool hk_os_readable(const void *p) {
    enum { NOTHING_KNOWN = -1, SET_BYTES = 8 };
    return p != NULL && HK_KEEP_ERRNO(HK_CALL(other, syscall(SYS_rt_sigprocmask, NOTHING_KNOWN, p,
                                                             NULL, SET_BYTES)) == 0 ||
                                      errno != EFAULT);
}

/* Whether the C library's first real-time signal is blocked, by which glibc cancels threads. */
bool hk_os_thread_ends(void) {
    enum { CANCEL = 32, SET_BYTES = 8 };
    uint64_t blocked = 0;
    (void)HK_KEEP_ERRNO(
        HK_CALL(other, syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &blocked, SET_BYTES)));
    return (blocked >> (CANCEL - 1) & 1) != 0;
}

/* A requeue that wakes and moves no waiter only compares the word. 0: it is the expected one; else
 * errno. */
static int word_differs(const uint32_t *p, uint32_t word) {
    return HK_KEEP_ERRNO(
        HK_CALL(futex, syscall(SYS_futex, p, HK_FUTEX_CMP_REQUEUE, 0, NULL, p, word)) < 0 ? errno
                                                                                          : 0);
}

bool hk_os_holds(const uint32_t *p) { return word_differs(p, 0) == EAGAIN; }
bool hk_os_is(const uint32_t *p, uint32_t word) { return word_differs(p, word) == 0; }

int hk_os_map_file(void *p, size_t bytes, int fd, uint64_t offset) {
    const int access = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
    hk_walk(are_pages(p, bytes));
    if (!may_ask())
        return ENOMEM;
    return HK_KEEP_ERRNO(
        HK_COUNTED(mmap, mmap(p, bytes, access, flags, fd, (off_t)offset)) == p ? 0 : errno);
}

/* SipHash-2-4 of two words: the result does not reveal the key. */
static HK_COLD uint64_t hashed(const uint64_t key[2], uint64_t first, uint64_t second) {
    const uint64_t words[] = {first, second, (uint64_t)16 << 56 /* their bytes */, 0};
    uint64_t a = key[0] ^ 0x736F6D6570736575u, b = key[1] ^ 0x646F72616E646F6Du;
    uint64_t c = key[0] ^ 0x6C7967656E657261u, d = key[1] ^ 0x7465646279746573u;
    for (unsigned i = 0; i < 4; i++) {
        c ^= i == 3 ? 0xFF : 0;
        d ^= words[i];
        for (unsigned rounds = i == 3 ? 4 : 2; rounds != 0; rounds--) {
            a += b, c += d;
            b = (b << 13 | b >> 51) ^ a, d = (d << 16 | d >> 48) ^ c;
            a = a << 32 | a >> 32;
            c += b, a += d;
            b = (b << 17 | b >> 47) ^ c, d = (d << 21 | d >> 43) ^ a;
            c = c << 32 | c >> 32;
        }
        a ^= words[i];
    }
    return a ^ b ^ c ^ d;
}

/* If getrandom fails, hashes the clock with the random bytes that the kernel gave the process at
 * its start as the key; they must not leak, because the C library derives its secrets from them. */
uint64_t hk_os_random(void) {
    static _Atomic uint64_t given; /* atomic: any thread */
    uint64_t number = 0, key[2];
    if (HK_KEEP_ERRNO(HK_CALL(other, syscall(SYS_getrandom, &number, sizeof number,
                                             GRND_NONBLOCK))) != sizeof number) {
        memcpy(key, (const char *)getauxval(AT_RANDOM), sizeof key);
        number = hashed(key, hk_os_now_ns(), hk_add_relaxed(&given, (uint64_t)1));
    }
    return number;
}

bool hk_os_unmap(void *p, size_t bytes) {
    hk_walk(are_pages(p, bytes));
    return HK_KEEP_ERRNO(HK_COUNTED(munmap, munmap(p, bytes)) == 0);
}

static bool is_mapped(char *page) {
    unsigned char unused;
    return HK_COUNTED(mincore, mincore(page, 1, &unused)) == 0 || errno != ENOMEM;
}

/* Undoes a partial move. From Linux 6.17 on one call moves several mappings, if they keep their
 * length, and stops at one that it cannot move, e.g. one with userfaultfd. Those before it have
 * moved: they are brought back unless their addresses have been taken meanwhile. (hk_os_move_away()
 * leaves mappings behind.) */
static HK_COLD void bring_back(char *from, size_t bytes, char *to) {
    const size_t page = hk_os_page_size();
    size_t gone = 0, least = bytes; /* at least `gone` has moved, at most `least` */
    while (gone < least) {
        const size_t half = hk_align_up((least - gone) / 2, page), at = gone + half - page;
        if (is_mapped(from + at))
            least = at;
        else
            gone = at + page;
    }
    if (gone != 0 && map_there((uintptr_t)from, gone, PROT_NONE, MAP_NORESERVE) != NULL)
        HK_COUNTED(mremap, mremap(to, gone, gone, MREMAP_MAYMOVE | MREMAP_FIXED, from));
}

static void *remap(void *from, size_t bytes, size_t new_bytes, int flags, void *to) {
    hk_walk(are_pages(from, bytes));
    hk_walk(are_pages(to, new_bytes));
    if (new_bytes >= bytes && !may_ask())
        return NULL;
    const int saved = errno;
    void *now = HK_COUNTED(mremap, mremap(from, bytes, new_bytes, flags, to));
    if (HK_LIKELY(now != MAP_FAILED))
        return now;
    if (errno == EFAULT && to != NULL && bytes == new_bytes && !is_mapped(from))
        bring_back(from, bytes, to);
    errno = saved;
    return NULL;
}

void *hk_os_remap(void *p, size_t bytes, size_t new_bytes, bool may_move) {
    return remap(p, bytes, new_bytes, may_move ? MREMAP_MAYMOVE : 0, NULL);
}

bool hk_os_move(void *from, size_t bytes, void *to, size_t new_bytes) {
    /* the kernel refuses overlapping ranges after it has unmapped some of them */
    hk_assert((char *)from + bytes <= (char *)to || (char *)to + new_bytes <= (char *)from);
    hk_assert(new_bytes >= bytes);
    return remap(from, bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != NULL;
}

void *hk_os_move_away(void *p, size_t bytes) {
    enum { DONT_UNMAP = 4 }; /* MREMAP_DONTUNMAP, which not all headers have */
    return remap(p, bytes, bytes, MREMAP_MAYMOVE | DONT_UNMAP, NULL);
}

/* ---- advice ---- */

_Static_assert(HK_PURGE == MADV_DONTNEED && HK_RESET == MADV_FREE, "as the system calls them");
_Static_assert(HK_HUGE_PAGES == MADV_HUGEPAGE && HK_NO_HUGE_PAGES == MADV_NOHUGEPAGE, "and these");
_Static_assert(HK_NO_DUMP == MADV_DONTDUMP, "and this");

/* Not process_madvise, which takes many ranges at once: it is new, and a sandbox that kills at
 * unknown calls would kill the process at its first purge. */
int hk_os_advise(void *p, size_t bytes, hk_advice_t advice) {
    return HK_KEEP_ERRNO(HK_COUNTED(madvise, madvise(p, bytes, (int)advice)) == 0 ? 0 : errno);
}

enum { PURGES = 1, KEEPS };

static HK_COLD unsigned try_purge(void) {
    const size_t page = hk_os_page_size();
    volatile char *p = map(NULL, page, PROT_READ | PROT_WRITE, 0);
    unsigned found = NOT_ASKED;
    if (p == NULL)
        return NOT_ASKED; /* ask again later */
    *p = 1;
    void *start = (void *)(uintptr_t)p;
    if (hk_os_advise(start, page, HK_PURGE) == 0) /* else it may be locked */
        found = *p == 0 ? PURGES : KEEPS;
    hk_os_unmap(start, page);
    return found;
}

bool hk_os_purges(void) {
    static atomic_uint known; /* atomic: any thread; NOT_ASKED, PURGES or KEEPS */
    if (HK_UNLIKELY(hk_load_relaxed(&known) == NOT_ASKED))
        hk_store_relaxed(&known, try_purge());
    return hk_load_relaxed(&known) != KEEPS;
}

/* ---- what is resident ---- */

/* PAGEMAP_SCAN and its argument, as in <linux/fs.h> of Linux 6.7. */
typedef struct {
    uint64_t start, end, categories;
} region_t;
typedef struct {
    uint64_t size, flags, start, end, walk_end, regions, region_count, most_pages;
    uint64_t inverted, all_of, any_of, returned;
} scan_t;
#define PAGEMAP_SCAN _IOWR('f', 16, scan_t)
enum { IS_PRESENT = 1 << 3, IS_ZERO_PAGE = 1 << 5 };

hk_os_look_t hk_os_look_begin(void) {
    const int flags = O_RDONLY | O_CLOEXEC;
    /* /proc/self is the main thread's, which may have ended */
    return HK_KEEP_ERRNO(HK_CALL(other, open("/proc/thread-self/pagemap", flags)));
}

void hk_os_look_end(hk_os_look_t *look) {
    if (*look >= 0)
        HK_KEEP_ERRNO(HK_CALL(other, close(*look)));
    *look = -1;
}

/* Finds the pages that are present and not the zero page. */
static bool scan(int fd, uintptr_t start, size_t bytes, unsigned char *pages) {
    enum { REGIONS = 32 };
    const size_t page = hk_os_page_size();
    region_t regions[REGIONS];
    scan_t argument = {.size = sizeof argument,
                       .start = start,
                       .end = start + bytes,
                       .regions = (uintptr_t)regions,
                       .region_count = REGIONS,
                       .inverted = IS_ZERO_PAGE,
                       .all_of = IS_PRESENT | IS_ZERO_PAGE,
                       .returned = IS_PRESENT};
    memset(pages, 0, bytes / page);
    while (argument.start < argument.end) {
        int n = HK_CALL(other, syscall(SYS_ioctl, fd, PAGEMAP_SCAN, &argument));
        if (n < 0)
            return false;
        for (int i = 0; i < n; i++)
            memset(pages + (regions[i].start - start) / page, 1,
                   (regions[i].end - regions[i].start) / page);
        argument.start = argument.walk_end;
    }
    return true;
}

bool hk_os_look(hk_os_look_t *look, const void *p, size_t bytes, unsigned char *pages) {
    hk_walk(are_pages(p, bytes));
    int saved = errno;
    bool ok = *look >= 0 && scan(*look, (uintptr_t)p, bytes, pages);
    if (!ok) {
        hk_os_look_end(look);
        ok = HK_COUNTED(mincore, mincore((void *)(uintptr_t)p, bytes, pages)) == 0;
        for (size_t i = 0; ok && i < bytes / hk_os_page_size(); i++)
            pages[i] &= 1;
    }
    errno = saved;
    return ok;
}

/* ---- waiting ---- */

void hk_os_wait(_Atomic uint32_t *word, uint32_t expected, unsigned ms) {
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    hk_futex(word, HK_FUTEX_WAIT, expected, ms == 0 ? NULL : &time);
}

void hk_os_wake(_Atomic uint32_t *word) { hk_futex(word, HK_FUTEX_WAKE, INT_MAX, NULL); }

int hk_os_cpu(void) { return HK_KEEP_ERRNO(sched_getcpu()); }

/* ---- clocks ---- */

#if defined(__x86_64__)
#define CLOCK_OF_SYSTEM "__vdso_clock_gettime"
#else
#define CLOCK_OF_SYSTEM "__kernel_clock_gettime"
#endif
typedef int now_t(clockid_t clock, struct timespec *now);
static _Atomic(now_t *) known_clock; /* atomic: all threads find the same */
/* The same for a process that settles: on a page that becomes read-only. Other processes must not
 * touch that page for it. */
static _Atomic(now_t *) settled_clock
    __attribute__((section(".data.hk_settled"))); /* const once set */

static int ask_system(clockid_t clock, struct timespec *now) {
    return HK_KEEP_ERRNO(HK_CALL(other, syscall(SYS_clock_gettime, clock, now)));
}

/* The vDSO's clock_gettime. Not by its name: the program may have replaced that by one that
 * allocates. A vDSO of an old kernel, linked to another address than it lies at, is not
 * searched. */
static HK_COLD now_t *find_clock(void) {
    const uintptr_t file = HK_KEEP_ERRNO(getauxval(AT_SYSINFO_EHDR));
    const ElfW(Ehdr) *head = (const void *)file;
    const ElfW(Phdr) *parts = (const void *)(file + (head != NULL ? head->e_phoff : 0));
    now_t *found = NULL;
    if (parts != NULL && parts->p_vaddr == 0)
        *(void **)&found = hk_symbol_in(file, parts, head->e_phnum, CLOCK_OF_SYSTEM, NULL);
    return found != NULL ? found : ask_system;
}

static HK_COLD now_t *find_known_clock(void) {
    now_t *found = find_clock();
    hk_store_relaxed(&known_clock, found);
    return found;
}

/* Another thread may store known_clock meanwhile: it is not used any more. */
void hk_os_settle_clock(void) {
    if (hk_load_relaxed(&settled_clock) != NULL)
        return;
    hk_store_relaxed(&settled_clock, find_clock());
    hk_store_relaxed(&known_clock, NULL);
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now = {0};
    now_t *ask = hk_load_relaxed(&settled_clock);
    if (ask == NULL && HK_UNLIKELY((ask = hk_load_relaxed(&known_clock)) == NULL))
        ask = find_known_clock();
    ask(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t hk_os_now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
uint64_t hk_os_date_ns(void) { return clock_ns(CLOCK_REALTIME); }
