/* HAKMEM_PROF and HAKMEM_LEAKS: heap profiles at exit, on SIGUSR1, at peaks and every so many
 * bytes, and the report of blocks still in use at exit.
 *
 * The thread whose allocation made a peak writes its profile, holding no lock of the allocator.
 * Other threads go on meanwhile; if another profile is due, they do not wait to write it. */
#include "api/asked.h"

#include <signal.h>
#include <stdio.h>

#include "api/api.h"
#include "api/stats.h"
#include "backend/advise.h"
#include "backend/heap.h"
#include "base/calls.h"
#include "base/worker.h"
#include "config/config.h"
#include "front/boundary.h"
#include "front/thread_own.h"
#include "front/watched.h"
#include "hakmem/hakmem.h"
#include "os/os.h"
#include "os/stack.h"
#include "policy/purger.h"
#include "profile/leaks.h"
#include "profile/sample.h"
#include "profile/write.h"

enum { LEAKS_UNREACHABLE = 2 }; /* HAKMEM_LEAKS */

/* Lower peaks are not written. */
#define FIRST_PEAK HK_MIB

/* lock: hk_writing, unless marked. A forked child begins anew. */
static atomic_bool on;     /* atomic: written under the lock; whether samples are taken */
static atomic_bool untold; /* atomic: the same; not all threads have heard of the last change */
static bool warned;
static unsigned files; /* number of files written */
/* atomic: any thread reads. Bytes in use at the highest peak written; bytes allocated in all when
 * the last multiple of HAKMEM_PROF_EVERY_MB was written. */
static _Atomic uint64_t peak, bytes;

/* ---- writing ---- */

/* Not inlined: the struct is large, and an allocating thread may have a small stack. */
static HK_NOINLINE uint64_t live_bytes(void) {
    hak_stats_t stats;
    return hk_stats_collect(&stats, false) ? stats.allocated : UINT64_MAX;
}

static int emit(int fd, const void *reason) {
    return hk_profile_write(fd, &(hk_profile_about_t){.reason = reason,
                                                      .rss = hk_os_status("VmRSS:"),
                                                      .live = live_bytes(),
                                                      .text = hk_option(prof_format) != 0});
}

/* Appends a name such as PREFIX.0001.exit.pb.gz; false: it is too long. */
static bool put_name(hk_line_t *path, const char *begins, const char *reason) {
    if (!hk_asked_path(path, begins))
        return false;
    hk_line_put(path, ".%04lu.%s%s", (uint64_t)files, reason,
                hk_option(prof_format) != 0 ? ".txt" : ".pb.gz");
    hk_line_text(path);
    return true;
}

static const char *prefix(void) {
    const char *given = hk_option(prof_path);
    return given != NULL && *given != '\0' ? given : "hakmem.%p";
}

/* Warns at most once. */
static void write_locked(const char *reason) {
    hk_line_t path = {0};
    files++;
    const bool named = put_name(&path, prefix(), reason);
    const int error = named ? hk_asked_file(&path, HK_FOR_THE_USER, emit, reason) : ENAMETOOLONG;
    if (error != 0 && !warned)
        hk_config_warn("HAKMEM_PROF_PATH", named ? path.text : prefix(), hk_error_text(error),
                       "no profile is written");
    warned |= error != 0;
}

static bool multiple_is_due(uint64_t allocated) {
    const uint64_t every = hk_option(prof_every_mb) * HK_MIB;
    return every != 0 && allocated / every > hk_load_relaxed(&bytes) / every;
}

static bool peak_is_due(uint64_t in_use) {
    const uint64_t before = hk_load_relaxed(&peak);
    return hk_option(prof_peak) != 0 && in_use > hk_max(before + before / 8, FIRST_PEAK);
}

/* Signals are blocked: a handler that ends the process would deadlock on hk_writing, which its own
 * thread holds. */
static HK_COLD void write_what_is_due(uint64_t allocated, uint64_t in_use) {
    const uint64_t before = hk_signals_block(HK_SIGNALS_FROM_OUTSIDE);
    if (hk_lock_try(&hk_writing)) {
        if (multiple_is_due(allocated)) {
            hk_store_relaxed(&bytes, allocated);
            write_locked("bytes");
        }
        if (peak_is_due(in_use)) {
            hk_store_relaxed(&peak, in_use);
            write_locked("peak");
        }
        hk_unlock(&hk_writing);
    }
    hk_signals_block(before);
}

/* ---- watching ---- */

/* Not inside the boundary, where this thread may hold a lock: the lock's owner could be in a signal
 * handler that waits for it. */
static bool may_wait(void **own) { return own != NULL && !hk_thread_is_inside(); }

static void given(void **own, void *p, const hk_told_t *told) {
    const int saved = errno;
    const bool waits = may_wait(own);
    if (HK_UNLIKELY(told->resized != NULL) && told->resized->again) {
        if (told->resized->was.p != 0)
            hk_profile_put_back(&told->resized->was, waits);
    } else if (hk_profile_given(own, p, told->n, waits) && waits && hk_option(prof) != 0) {
        const uint64_t allocated = hk_load_relaxed(&hk_profile_allocated);
        const uint64_t in_use = hk_load_relaxed(&hk_profile_in_use);
        if (multiple_is_due(allocated) || peak_is_due(in_use))
            write_what_is_due(allocated, in_use);
    }
    errno = saved;
}

/* Zeroes the block's whole words; bytes behind them may belong to its guard. A large block's pages
 * are given back instead, for zeroing could touch more memory than the block ever used. */
static void clear(char *p, size_t n) {
    n -= n % sizeof(void *);
    const size_t page = hk_os_page_size();
    char *from = (char *)hk_align_up((uintptr_t)p, page), *end = p + n;
    char *to = (char *)((uintptr_t)end & ~(page - 1));
    if (from < to && n >= HK_SLICE && hk_advise_in_use(from, (size_t)(to - from), HK_PURGE)) {
        hk_zero(p, (size_t)(from - p));
        hk_zero(to, (size_t)(end - to));
    } else {
        hk_zero(p, n);
    }
}

/* Pointers in a freed block must not make others reachable, so the block is cleared; a realloc
 * still needs its contents. The table may still know a larger block that was there before, whose
 * free was not told: hence the minimum. */
static void taken(void **own, void *p, const hk_told_t *told) {
    const int saved = errno;
    hk_profile_block_t *was = told->resized != NULL ? &told->resized->was : NULL;
    const size_t n = hk_profile_may_know(p) ? hk_profile_remove(p, may_wait(own), was) : 0;
    if (n != 0 && hk_option(leaks) == LEAKS_UNREACHABLE && told->resized == NULL)
        clear(p, hk_min(n, hk_usable(p)));
    errno = saved;
}

static void begin_anew(void) {
    hk_store_relaxed(&peak, (uint64_t)0);
    hk_store_relaxed(&bytes, (uint64_t)0);
}

static void forked(void **own) {
    *own = NULL;
    begin_anew();
    files = 0;
    warned = false;
}

static const hk_watcher_t watcher = {given, taken, NULL, forked};

/* Clears the table last: a thread that was still telling the previous watcher may have added a
 * block whose free goes untold. False: as hk_watch(). */
static bool begin_locked(bool reads_stacks) {
    hk_profile_start(hk_option(prof_sample_kb) * HK_KIB, hk_os_random());
    begin_anew();
    if (!hk_watch(HK_WATCH_PROFILE, &watcher))
        return false;
    if (!reads_stacks)
        hk_config_warn("HAKMEM_PROF", "1",
                       "no libgcc_s.so.1, or a static program linked without --eh-frame-hdr",
                       "all stacks are empty");
    hk_profile_clear();
    return true;
}

static bool is_wanted(void) {
    return !HK_FAST && (hk_load_seq(&hk_config.prof) != 0 || hk_option(leaks) != 0);
}

static bool changes(bool wanted) { return hk_load_seq(&untold) || wanted != hk_load_seq(&on); }

/* Repeated if the options changed meanwhile: two threads may race here. Signals are blocked as in
 * write_what_is_due(). */
bool hk_profile_apply(void) {
    bool told = true;
    if (!HK_FAST &&
        (hk_option(prof) != 0 || hk_option(prof_signal) != 0 || hk_option(prof_path) != NULL))
        hk_path_keep(prefix());
    while (told && changes(is_wanted())) {
        /* before hk_writing: it takes the loader's lock, whose holder may be about to come here */
        const bool reads_stacks = hk_stack_prepare();
        const uint64_t before = hk_signals_block(HK_SIGNALS_FROM_OUTSIDE);
        hk_lock(&hk_writing);
        const bool wanted = is_wanted();
        if (changes(wanted))
            told = wanted ? begin_locked(reads_stacks) : hk_watch(HK_WATCH_PROFILE, NULL);
        hk_store_seq(&untold, !told);
        hk_store_seq(&on, wanted && told);
        hk_unlock(&hk_writing);
        hk_signals_block(before);
    }
    return told;
}

/* ---- asked for ---- */

/* The first signal starts profiling, and retries as long as a fork prevents that. */
static void on_signal(void) {
    if (hk_option(prof) == 0 || changes(true)) {
        hk_config_control("HAKMEM_PROF", "1", NULL, 0);
        while (!hk_profile_apply())
            ;
        return;
    }
    hk_lock(&hk_writing);
    write_locked("signal");
    hk_unlock(&hk_writing);
}

/* Takes no lock: the reader of fd may be slow. */
HK_EXPORT int hak_profile_write(int fd) {
    const int error = hk_load_relaxed(&on) && hk_option(prof) != 0 ? emit(fd, "ask") : EINVAL;
    if (error != 0)
        errno = error;
    return error == 0 ? 0 : -1;
}

/* ---- the process's beginning and end ---- */

void hk_profile_begin(void) {
    hk_profile_apply();
    if (!HK_FAST && hk_option(prof_signal) != 0)
        hk_asked_listen(SIGUSR1, on_signal);
}

static void flush_one(FILE *stream) {
    if (ftrylockfile(stream) == 0) {
        fflush(stream);
        funlockfile(stream);
    }
}

static _Atomic uint32_t flushed; /* atomic: any thread */

static void flush_all(void) {
    fflush(NULL);
    hk_store_seq(&flushed, 1u);
    hk_os_wake(&flushed);
}

/* Flushes the streams, as exit() would later. exit() ignores their locks, fflush(NULL) waits for
 * each, and another thread may hold one as long as it reads. So a worker does that, for a limited
 * time; with no other thread, fflush(NULL) is called if stdin's lock is free. */
static void flush_streams(void) {
    enum { PATIENCE_MS = 500 };
    const bool alone = hk_load_relaxed(&hk_heap_threads) <= 1 && !hk_purger_has_company();
    flush_one(stdout);
    flush_one(stderr);
    if (!alone && hk_worker_start(flush_all) == 0) {
        for (unsigned i = 0; i < PATIENCE_MS && hk_load_seq(&flushed) == 0; i++)
            hk_os_wait(&flushed, 0, 1);
    } else if (ftrylockfile(stdin) == 0) {
        funlockfile(stdin);
        fflush(NULL);
    }
}

void hk_profile_end(void) {
    __builtin_unwind_init(); /* spills registers to the stack: they, too, may point to blocks */
    const char *ignored = hk_option(leaks_ignore);
    hk_lock(&hk_writing);
    if (hk_load_relaxed(&on) && hk_option(prof) != 0)
        write_locked("exit");
    hk_unlock(&hk_writing); /* the report takes the loader's lock, whose holder may wait for this */
    const bool any = hk_load_relaxed(&on) && hk_option(leaks) != 0 &&
                     hk_leaks_report(ignored != NULL ? ignored : "_IO_file_doallocate",
                                     hk_option(leaks) == LEAKS_UNREACHABLE);
    if (!any || hk_option(leaks_status) == 0)
        return;
    flush_streams();
    HK_CALL(other, syscall(SYS_exit_group, (int)hk_option(leaks_status)));
}
