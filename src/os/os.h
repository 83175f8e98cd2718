/* The contract with the operating system: address space and pages. No policy, no locks. System
 * calls are counted here (base/calls.h), because only here it is known how many a request takes;
 * nothing else is counted.
 *
 * Any thread may call each function; each keeps errno and never allocates. Sizes are multiples of
 * hk_os_page_size() unless said otherwise. False or NULL means the system refused and nothing has
 * changed (except where stated). */
#pragma once

#include "base/base.h"

/* Bytes of an OS page, read from the system, never assumed. */
size_t hk_os_read_page_size(void);
extern _Atomic size_t hk_os_page_bytes; /* 0 until it was read */
HK_INLINE size_t hk_os_page_size(void) {
    size_t bytes = hk_load_relaxed(&hk_os_page_bytes);
    return HK_LIKELY(bytes != 0) ? bytes : hk_os_read_page_size();
}

/* Maps `bytes` of zeroed read-write memory aligned to `align` (a power of two >= the OS page);
 * bytes + align < SIZE_MAX. The caller owns the range until hk_os_unmap(). */
void *hk_os_map(size_t bytes, size_t align);

/* The same at address `where` and nowhere else; NULL also if something is mapped there already. */
void *hk_os_map_at(uintptr_t where, size_t bytes);

/* Reserves address space that reads as zero and cannot be written to. It costs no memory and does
 * not count against RLIMIT_DATA or the overcommit limit. */
void *hk_os_reserve(size_t bytes);

/* Whether the system would grant `bytes` more address space; and whether it would commit itself to
 * as much memory (a strict vm.overcommit_memory may refuse). Maps and unmaps them, inaccessible, so
 * that a process that locks future memory gets none. */
bool hk_os_grants_addresses(size_t bytes);
bool hk_os_grants_commitment(size_t bytes);

/* Whether it would grant `bytes` more memory in one piece, as above. With heuristic overcommit that
 * is at most what the machine has. */
bool hk_os_grants_memory(size_t bytes);

/* RLIMIT_AS, RLIMIT_DATA and RLIMIT_FSIZE in bytes. For the process's start, before a sandbox may
 * kill it for asking. */
uint64_t hk_os_address_limit(void);
uint64_t hk_os_data_limit(void);
uint64_t hk_os_file_limit(void);

/* Replaces pages by a part of a file: what is written there gets into the file however the process
 * ends. The file is open for reading and writing, and long enough; the offset is a multiple of the
 * page. Returns 0 or an errno value. */
int hk_os_map_file(void *p, size_t bytes, int fd, uint64_t offset);

/* Reserves inaccessible addresses, `align`ed to a power of two. Costs no memory. */
void *hk_os_fence(size_t bytes, size_t align);

/* Whether the C library is starting or ending the calling thread: it blocks signals then that no
 * program can block. (glibc before 2.35 does not as it ends one.) */
bool hk_os_thread_ends(void);

/* Changes the access to pages. */
typedef enum { HK_NO_ACCESS = 0, HK_READ = 1, HK_READ_WRITE = 3 } hk_access_t;
bool hk_os_protect(void *p, size_t bytes, hk_access_t access);

/* Drops the pages' memory and makes them inaccessible. */
bool hk_os_close(void *p, size_t bytes);

/* The same by marks in the page tables (Linux 6.13), which split no mapping and survive a fork; and
 * their removal, after which the pages read as zero. For writable memory that is not locked. On
 * refusal there are no marks, but some of the memory may be gone. hk_os_marks(): whether the system
 * has marks; false once it has refused one, unless for want of memory. */
bool hk_os_marks(void);
bool hk_os_mark(void *p, size_t bytes);
bool hk_os_unmark(void *p, size_t bytes);

/* Whether the 8 bytes at p can be read. Signal handlers may call it. */
bool hk_os_readable(const void *p);

/* Whether the word at p can be read and is not 0; or equals `word`. Brings in no memory. */
bool hk_os_holds(const uint32_t *p);
bool hk_os_is(const uint32_t *p, uint32_t word);

/* 64 unpredictable bits. */
uint64_t hk_os_random(void);

/* Unmaps the range. On refusal it stays mapped and readable. */
bool hk_os_unmap(void *p, size_t bytes);

/* Variables that hardly ever change lie on pages of their own, from one of these symbols up to the
 * next (tools/order.ld); NULL if the linker did not use that. hk_os_settle() changes the access to
 * such pages. False: refused. */
extern __attribute__((weak, visibility("hidden"))) char hk_settled_options[], hk_settled_classes[],
    hk_settled_end[];
extern atomic_bool hk_os_settled; /* atomic: set once; before, hk_os_settle() does nothing */
bool hk_os_settle(char *from, char *to, hk_access_t access);

/* A range of address space, whole OS pages. */
typedef struct {
    void *start;
    size_t bytes;
} hk_os_range_t;

/* Advice about pages. Values are the system's, so that no process touches a table to translate
 * them. All keep the address space. */
typedef enum {
    HK_PURGE = 4, /* drop the pages' memory now; they then read as zero */
    /* the system may drop it at any time; until written to, pages read as before or as zero */
    HK_RESET = 8,
    HK_NO_HUGE_PAGES = 15, /* no huge pages from now on; existing ones stay */
    HK_HUGE_PAGES = 14,    /* a hint that huge pages are wanted */
    HK_NO_DUMP = 16,       /* leave the pages out of core files */
} hk_advice_t;

/* Advises the system about a range. Returns 0 or an errno value. */
int hk_os_advise(void *p, size_t bytes, hk_advice_t advice);

/* Whether HK_PURGE drops what pages hold: an emulator may accept the advice and do nothing (qemu's
 * before 7.1). Asks the system once, by a page of its own; true until it can be asked. */
bool hk_os_purges(void);

/* Resizes a mapping in place or, if that fails and it may move, at another address. What lies
 * beyond `bytes` reads as zero. Returns its address; NULL: refused, or what lies behind it is
 * taken. */
void *hk_os_remap(void *p, size_t bytes, size_t new_bytes, bool may_move);

/* Moves the pages of [from, from+bytes) to [to, to+new_bytes), replacing the mapping there. What
 * lies beyond `bytes` reads as zero, and `from` is unmapped. On refusal `from` is as it was, but
 * the target may have been unmapped: the caller checks (hk_os_is()) or gives it up. */
bool hk_os_move(void *from, size_t bytes, void *to, size_t new_bytes);

/* Moves the memory of these pages, a part of one mapping, to an address that the system chooses,
 * with the same access. The pages stay mapped here and read as zero. NULL: refused, or Linux before
 * 5.7. */
void *hk_os_move_away(void *p, size_t bytes);

/* A look at which OS pages have memory; one thread uses it from begin to end. Where the system can
 * tell the zero page from memory (Linux 6.7), it holds a file open; elsewhere a page that was only
 * ever read counts as resident. */
typedef int hk_os_look_t; /* the file; -1: none */
hk_os_look_t hk_os_look_begin(void);
void hk_os_look_end(hk_os_look_t *look);

/* Sets pages[i] to 1 if the i-th OS page of the range has memory, else to 0. False: the system does
 * not say, as where a part of the range is not mapped. */
bool hk_os_look(hk_os_look_t *look, const void *p, size_t bytes, unsigned char *pages);

/* Sleeps while *word is `expected`, until a hk_os_wake(), for at most `ms` milliseconds (0: for
 * ever). May wake up for no reason. */
void hk_os_wait(_Atomic uint32_t *word, uint32_t expected, unsigned ms);
void hk_os_wake(_Atomic uint32_t *word);

/* The processor that the calling thread runs on; -1: unknown. */
int hk_os_cpu(void);

/* Nanoseconds since some moment, or since 1970. Without a system call if the kernel maps its
 * clocks, and never by a function that the program can replace. */
uint64_t hk_os_now_ns(void);
uint64_t hk_os_date_ns(void);

/* Finds the clock and keeps it on a page that hk_os_settle() protects. Call it before that. */
void hk_os_settle_clock(void);
HK_INLINE uint64_t hk_os_now_ms(void) { return hk_os_now_ns() / 1000000; }

/* A file that one thread reads line by line, from open to close. A file that cannot be opened has
 * no lines. A line longer than `text` comes in pieces. Changes errno. */
typedef struct {
    int fd;
    int error;       /* errno of a failed open or read; else 0 */
    size_t from, to; /* in `text`: the part that was read but not used yet */
    char text[4096 + 256];
} hk_os_lines_t;
bool hk_os_lines_open(hk_os_lines_t *lines, const char *path);
void hk_os_lines_close(hk_os_lines_t *lines);

/* The next line without its newline, valid until the next call; NULL: there is none. */
char *hk_os_line(hk_os_lines_t *lines);

/* Whether the string `line` contains the string `part`. */
bool hk_os_line_has(const char *line, const char *part);

/* Opens the list of this process's mappings. After the main thread's end its list is empty: then it
 * is the calling thread's. */
#define HK_OS_MAPPINGS "/proc/self/maps"
bool hk_os_mappings_open(hk_os_lines_t *lines);

/* The lowest memory limit in bytes that the process's cgroups set (v2: memory.max and memory.high,
 * v1: memory.limit_in_bytes; from its own group up to the mount); 0: none. `membership`: the
 * process's list of groups; `mount`: the folder of the trees. *unread: 0, or errno of that list or
 * of an existing limit that could not be read. Opens files. */
#define HK_OS_MEMBERSHIP "/proc/self/cgroup"
#define HK_OS_CGROUPS "/sys/fs/cgroup"
uint64_t hk_os_memory_limit(const char *membership, const char *mount, int *unread);

/* A figure of /proc/self/status in bytes: for "VmHWM:" (peak resident memory) that of the line
 * "VmHWM:    123 kB". 0: it cannot be read. */
size_t hk_os_status(const char *name);

/* How many threads are left once the main thread has ended; 0 before that, or if unknown. */
unsigned hk_os_threads_left(void);

#if HK_DEBUG
/* The fault-injecting double: the Nth call from now on that asks for memory fails, and all after
 * it, until set to a negative number again. */
void hk_os_fail_after(long calls);
#endif
