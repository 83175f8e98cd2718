/* The contract with the operating system: address space and pages. No policy, no locks. Each call
 * is counted where it is made (base/calls.h), because only here is it known how many a request
 * takes; nothing else is.
 *
 * Every function may be called by any thread, keeps errno, and never allocates. Sizes are multiples
 * of hk_os_page_size() unless said otherwise. A false or NULL result means the system refused and
 * nothing has changed (except where stated). */
#pragma once

#include "base/base.h"

/* Bytes of an OS page, read from the system, never assumed. */
size_t hk_os_read_page_size(void);
extern _Atomic size_t hk_os_page_bytes; /* 0 until it was read */
HK_INLINE size_t hk_os_page_size(void) {
    size_t bytes = hk_load_relaxed(&hk_os_page_bytes);
    return HK_LIKELY(bytes != 0) ? bytes : hk_os_read_page_size();
}

/* Maps `bytes` of zeroed read-write memory aligned to `align` (a power of two >= the OS page), both together
 * less than SIZE_MAX. The caller owns the range until hk_os_unmap(). */
void *hk_os_map(size_t bytes, size_t align);

/* Maps as much there and nowhere else; NULL also where something is there already. */
void *hk_os_map_at(uintptr_t where, size_t bytes);

/* Reserves address space that reads as zero and cannot be written; costs no memory and is not
 * counted against RLIMIT_DATA or the overcommit limit. */
void *hk_os_reserve(size_t bytes);

/* Whether the system would grant so much more address space, and whether it would commit itself to
 * so much more memory in it (a strict vm.overcommit_memory says no). Asks, and gives back. What is
 * asked for cannot be touched, so that a process whose future memory is locked does not get it for
 * real. */
bool hk_os_grants_addresses(size_t bytes);
bool hk_os_grants_commitment(size_t bytes);

/* Whether it would grant so much more memory in one piece; as the two above. Where it commits itself by rule of thumb, that is
 * no more than the machine has. */
bool hk_os_grants_memory(size_t bytes);

/* The limits on addresses (RLIMIT_AS), private writable memory (RLIMIT_DATA) and files that are written (RLIMIT_FSIZE), in bytes.
 * For the process's start, when sandboxes do not kill yet for asking. */
uint64_t hk_os_address_limit(void);
uint64_t hk_os_data_limit(void);
uint64_t hk_os_file_limit(void);

/* Puts a part of a file in the place of pages: what is written there is the file's, however the process ends. The file
 * is open for reading and writing, and long enough; the offset is that of a page. 0, or why not, as errno says it. */
int hk_os_map_file(void *p, size_t bytes, int fd, uint64_t offset);

/* What nobody can read or write, `align`ed to a power of two. Costs no memory. */
void *hk_os_fence(size_t bytes, size_t align);

/* Whether the C library makes or ends the calling thread: then signals are blocked that no program can block. (glibc before 2.35
 * blocks none as it ends one.) */
bool hk_os_thread_ends(void);

/* What may be done with pages from now on. */
typedef enum { HK_NO_ACCESS = 0, HK_READ = 1, HK_READ_WRITE = 3 } hk_access_t;
bool hk_os_protect(void *p, size_t bytes, hk_access_t access);

/* Takes the pages' memory, and all access to them. */
bool hk_os_close(void *p, size_t bytes);

/* The same by marks in the page tables (Linux 6.13), which cut no mapping and stay through a fork; and takes them off: the pages read as
 * zero then. Of memory that can be written to and is not locked; where one is refused there are none, but some of the memory may have
 * gone. hk_os_marks: whether the system has them; false once it has refused one, unless for want of memory. */
bool hk_os_marks(void);
bool hk_os_mark(void *p, size_t bytes);
bool hk_os_unmark(void *p, size_t bytes);

/* Whether the 8 bytes at p can be read. In a signal handler, too. */
bool hk_os_readable(const void *p);

/* Whether the word at p can be read and is not 0. Nothing is written, and no memory is brought in. Keeps errno. */
bool hk_os_holds(const uint32_t *p);

/* Whether it can be read and is this one; the same holds. */
bool hk_os_is(const uint32_t *p, uint32_t word);

/* 64 bits that nobody can guess. */
uint64_t hk_os_random(void);

/* Gives the range back, address space included. On refusal the range stays mapped and readable. */
bool hk_os_unmap(void *p, size_t bytes);

/* What changes hardly ever lies on pages of its own, from one of these on up to the next (tools/order.ld); NULL
 * where the linker could not be told. Lets nobody write to it any more, or again. False: refused. */
extern __attribute__((weak, visibility("hidden"))) char hk_settled_options[], hk_settled_classes[],
    hk_settled_end[];
extern atomic_bool hk_os_settled; /* atomic: set once; until then nothing is refused to anybody */
bool hk_os_settle(char *from, char *to, hk_access_t access);

/* A range of address space, whole OS pages. */
typedef struct {
    void *start;
    size_t bytes;
} hk_os_range_t;

/* What to do with the pages of ranges; numbers as the system has them, or each process would touch a table of
 * those. Each keeps the address space. */
typedef enum {
    HK_PURGE = 4, /* give them back now; the ranges then read as zero */
    /* the system may take them whenever it likes; until written to, they read as before or as zero */
    HK_RESET = 8,
    HK_NO_HUGE_PAGES = 15, /* back the ranges by no huge pages from now on; those there stay */
    HK_HUGE_PAGES = 14,    /* a hint that huge pages are wanted */
    HK_NO_DUMP = 16,       /* leave the ranges out of core files */
} hk_advice_t;

/* Advises the system about a range. Returns 0 or, where it refuses, why, as errno says it. */
int hk_os_advise(void *p, size_t bytes, hk_advice_t advice);

/* Changes the size of a mapping: where it is or, if it may move, at any page where that cannot be done. What is beyond
 * `bytes` reads as zero. Returns where it starts now; NULL: what lies behind it is taken, or refused. */
void *hk_os_remap(void *p, size_t bytes, size_t new_bytes, bool may_move);

/* Moves the pages of [from, from+bytes) to [to, to+new_bytes), replacing the mapping there; what is
 * beyond `bytes` reads as zero, and `from` is unmapped. On refusal `from` is as it was, but
 * the target may have been unmapped: the caller finds out (hk_os_is()), or gives it up. */
bool hk_os_move(void *from, size_t bytes, void *to, size_t new_bytes);

/* Moves what is in these pages, which are a part of one mapping, to a place that the system chooses, where as much may be done with it; here
 * they stay mapped as they are, and read as zero. NULL: refused, by Linux before 5.7 too. */
void *hk_os_move_away(void *p, size_t bytes);

/* A look at which OS pages have memory, of one thread, from begin to end. Holds a file open where
 * the system can tell (Linux 6.7) the zero page from memory; elsewhere a page that was only ever
 * read counts as resident. */
typedef int hk_os_look_t; /* the file; -1: none */
hk_os_look_t hk_os_look_begin(void);
void hk_os_look_end(hk_os_look_t *look);

/* Sets pages[i] to 1 where the i-th OS page of the range has memory, else to 0. False where the
 * system does not say: a part of the range may not be mapped. */
bool hk_os_look(hk_os_look_t *look, const void *p, size_t bytes, unsigned char *pages);

/* Sleeps until *word differs from `expected` and somebody calls hk_os_wake(), for at most `ms`
 * milliseconds (0: for ever), or for no reason at all. */
void hk_os_wait(_Atomic uint32_t *word, uint32_t expected, unsigned ms);
void hk_os_wake(_Atomic uint32_t *word);

/* The core that the calling thread runs on; -1 where the system does not say. */
int hk_os_cpu(void);

/* Nanoseconds since some moment, or since 1970; no call of the system where that maps its clocks into processes, and none
 * of a function that others may stand before. */
uint64_t hk_os_now_ns(void);
uint64_t hk_os_date_ns(void);

/* Finds the clock, and puts it on a page of what hk_os_settle() lets nobody write to, where there are such. Before that is called,
 * by a process that calls it. */
void hk_os_settle_clock(void);
HK_INLINE uint64_t hk_os_now_ms(void) { return hk_os_now_ns() / 1000000; }

/* A file, read line by line by one thread, from open to close; one that cannot be opened has no lines. What is longer than
 * `text`, which has room for a path and more, comes in pieces. Changes errno. */
typedef struct {
    int fd;
    int error;       /* why it could not be opened, or read on, as errno says it; 0 */
    size_t from, to; /* in `text`: what has been read and not been used yet */
    char text[4096 + 256];
} hk_os_lines_t;
bool hk_os_lines_open(hk_os_lines_t *lines, const char *path);
void hk_os_lines_close(hk_os_lines_t *lines);

/* The next line, without its end, until another one is read; NULL: there is none. */
char *hk_os_line(hk_os_lines_t *lines);

/* Whether `part` is somewhere in the line; of any two texts that end with a 0. */
bool hk_os_line_has(const char *line, const char *part);

/* The list of this process's mappings, opened so. Where its main thread has ended that has no memory any more, nor mappings to
 * tell of: then it is the calling thread's. */
#define HK_OS_MAPPINGS "/proc/self/maps"
bool hk_os_mappings_open(hk_os_lines_t *lines);

/* The lowest limit on memory, in bytes, that the cgroups of this process set (v2: memory.max and
 * memory.high, v1: memory.limit_in_bytes; from its own group up to the mount); 0: none. `membership` is the
 * process's list of groups, `mount` where their folders are. *unread: 0, or why one of the files, if it is there,
 * could not be read, as errno says it. Opens files. */
#define HK_OS_MEMBERSHIP "/proc/self/cgroup"
#define HK_OS_CGROUPS "/sys/fs/cgroup"
uint64_t hk_os_memory_limit(const char *membership, const char *mount, int *unread);

/* A figure of /proc/self/status, in bytes: of the line "VmHWM:    123 kB" that of "VmHWM:", the most that has
 * been resident. 0 where that cannot be read. */
size_t hk_os_status(const char *name);

/* How many threads the process has besides its main thread, once that has ended; 0 until then, and where nobody says. */
unsigned hk_os_threads_left(void);

#if HK_DEBUG
/* The fault-injecting double: the Nth call from now on that asks for memory fails, and all after
 * it, until set to a negative number again. */
void hk_os_fail_after(long calls);
#endif
