#include "record/record.h"

#include <sys/stat.h>

#include "base/calls.h"
#include "base/report.h"
#include "config/config.h"
#include "os/os.h"

enum { LINES = HK_RECORD_CHUNK / sizeof(hk_record_line_t) };

/* Numbers must stay below 2^32. The rest is for threads that still have room in their chunks. */
#define MOST_COUNTED (UINT32_MAX - ((uint64_t)1 << 24))

/* Where the recording is. */
enum { NONE, OPENING, FORKED, RUNS, STOPPED };

hk_record_head_t *hk_record_head;

static struct {
    atomic_uint state;
    const char *pattern;                /* const */
    uint64_t most;                      /* const: bytes */
    char path[1024];                    /* const while it runs */
    struct stat file;                   /* const while it runs; the path may lead elsewhere later */
    _Atomic uint32_t threads;           /* atomic: numbers given to threads */
    _Atomic(hk_record_line_t *) left;   /* atomic: next line of a thread that ended */
    _Atomic(hk_record_line_t *) nobody; /* atomic: the chunk of threads without one */
} rec;

/* ---- the file ---- */

/* Maps a chunk. Opens the file each time: the program could close a kept descriptor and reuse its
 * number. */
static int map_chunk(uint64_t chunk) {
    const int fd = hk_open(rec.path, O_RDWR, 0);
    if (fd < 0)
        return errno;
    const uint64_t at = chunk * HK_RECORD_CHUNK;
    int error = hk_is_file(fd, &rec.file) ? 0 : ESTALE;
    if (error == 0 && at + HK_RECORD_CHUNK > hk_os_file_limit())
        error = EFBIG; /* the system would also send a signal that ends the process */
    if (error == 0)    /* writing to a page that the disk has no room for is a SIGBUS */
        do
            error = HK_CALL(other, posix_fallocate(fd, (off_t)at, HK_RECORD_CHUNK));
        while (error == EINTR);
    if (error == 0)
        error = hk_os_map_file((char *)hk_record_head + at, HK_RECORD_CHUNK, fd, at);
    HK_CALL(other, close(fd));
    return error;
}

/* Makes a new file: a process that has mapped an older one of that name keeps it. */
static int make_file(void) {
    HK_CALL(other, unlink(rec.path));
    const int fd = hk_open(rec.path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return errno;
    const int error = HK_CALL(other, fstat(fd, &rec.file)) == 0 ? 0 : errno;
    HK_CALL(other, close(fd));
    return error;
}

static const char *begin(void) {
    hk_line_t path = {0};
    if (!hk_line_path(&path, rec.pattern, true))
        return "the path is too long";
    memcpy(rec.path, path.text, path.len + 1);
    if (hk_os_page_size() > HK_RECORD_CHUNK)
        return "the OS pages of this system are larger than its chunks";
    int error = rec.most != 0 ? make_file() : EFBIG;
    if (error != 0)
        return hk_error_text(error);
    hk_record_head = hk_os_fence(rec.most, HK_RECORD_CHUNK);
    if (hk_record_head == NULL)
        return "there is no address space for so much";
    if ((error = map_chunk(0)) != 0) {
        hk_os_unmap(hk_record_head, rec.most);
        hk_record_head = NULL;
        return hk_error_text(error);
    }
    hk_record_head_t *h = hk_record_head;
    h->chunk_bytes = HK_RECORD_CHUNK;
    h->pid = HK_CALL(other, getpid());
    h->begin_ns = hk_os_now_ns();
    h->most_chunks = rec.most / HK_RECORD_CHUNK;
    hk_store_relaxed(&h->chunks, (uint64_t)1);
    hk_store_relaxed(&h->stopped, UINT64_MAX);
    hk_store_release(&h->magic, HK_RECORD_MAGIC);
    hk_store_seq(&rec.state, (unsigned)RUNS);
    return NULL;
}

static void warn(const char *problem) {
    hk_config_warn("HAKMEM_RECORD", rec.pattern, problem, "what follows is not recorded");
}

/* Stops recording. `stopped` is set before anything is lost: all lost operations have higher
 * numbers. */
static HK_COLD void stop(const char *problem) {
    uint64_t never = UINT64_MAX;
    if (!hk_cas_seq(&hk_record_head->stopped, &never, hk_load_seq(&hk_record_head->operations)))
        return;
    hk_store_seq(&rec.state, (unsigned)STOPPED);
    warn(problem);
}

const char *hk_record_start(const char *path, uint64_t bytes) {
    rec.pattern = path;
    /* exceeding the system's limit would end the process by a signal */
    rec.most = hk_min(bytes, hk_os_file_limit()) / HK_RECORD_CHUNK * HK_RECORD_CHUNK;
    return begin();
}

/* Of threads that race to a child's first operation, one opens the file; the others' operations are
 * lost. What a fork handler does in the child, or a child of _Fork(), must not go into the parent's
 * file. */
static bool runs(void) {
    unsigned state = hk_load_seq(&rec.state), forked = FORKED;
    if (state == FORKED && hk_cas_seq(&rec.state, &forked, (unsigned)OPENING)) {
        const char *problem = begin();
        if (problem != NULL) {
            hk_store_seq(&rec.state, (unsigned)STOPPED);
            warn(problem);
        }
        state = hk_load_seq(&rec.state);
    }
    return state == RUNS && hk_record_head->pid == (uint64_t)HK_CALL(other, getpid());
}

/* ---- chunks ---- */

/* The first line of a new chunk; NULL: there is none, and recording has stopped. */
static HK_COLD hk_record_line_t *new_chunk(uint32_t thread) {
    const uint64_t chunk = hk_add_relaxed(&hk_record_head->chunks, (uint64_t)1);
    if (chunk >= hk_record_head->most_chunks) {
        stop("the file is full (HAKMEM_RECORD_MB)");
        return NULL;
    }
    const int error = map_chunk(chunk);
    if (error != 0) {
        stop(hk_error_text(error));
        return NULL;
    }
    hk_record_line_t *first =
        (hk_record_line_t *)((uintptr_t)hk_record_head + chunk * HK_RECORD_CHUNK);
    first->what = hk_os_now_ns();
    hk_store_release(&first->where, (uint64_t)thread);
    return first;
}

/* The chunk of the line `at`, which may be its end. */
static hk_record_line_t *chunk_of(hk_record_line_t *at) {
    return (hk_record_line_t *)(((uintptr_t)at - 1) & ~(uintptr_t)(HK_RECORD_CHUNK - 1));
}

static uint32_t thread_of(hk_record_line_t *chunk) {
    const uint64_t owners = hk_load_relaxed(&chunk->where), last = owners >> 32;
    return (uint32_t)(last != 0 ? last : owners);
}

/* Writes a line that says whose the next operations are, and when. */
static void note_time(hk_record_line_t *at, uint32_t thread) {
    at->what = hk_os_now_ns();
    hk_store_release(&at->where, (uint64_t)HK_RECORD_THREAD << 48 | thread);
}

/* The first line of a thread: in the rest of an ended thread's chunk, or in a new one. */
static hk_record_line_t *begin_thread(void) {
    const uint32_t thread = hk_add_relaxed(&rec.threads, 1u) + 2; /* 1: threads without one */
    hk_record_line_t *at = hk_exchange_seq(&rec.left, NULL);
    if (at == NULL)
        return new_chunk(thread);
    hk_store_relaxed(&chunk_of(at)->where,
                     (uint32_t)hk_load_relaxed(&chunk_of(at)->where) | (uint64_t)thread << 32);
    note_time(at, thread);
    return at;
}

/* The next line of a thread whose chunk is full, or that has none yet. */
static HK_COLD hk_record_line_t *go_on(hk_record_line_t *at) {
    if (!runs())
        return NULL;
    hk_record_line_t *before;
    if (at == NULL) {
        before = begin_thread();
    } else {
        const uint32_t thread = thread_of(chunk_of(at));
        hk_os_close(chunk_of(at), HK_RECORD_CHUNK);
        before = new_chunk(thread);
    }
    return before != NULL ? before + 1 : NULL;
}

/* A line for a thread without a chunk. The first line of the shared chunk counts taken lines above
 * the thread's number. The chunk stays mapped: any thread may still be writing to it. */
static HK_COLD hk_record_line_t *for_nobody(void) {
    if (!runs())
        return NULL;
    for (;;) {
        hk_record_line_t *first = hk_load_acquire(&rec.nobody);
        const uint64_t one = (uint64_t)1 << 32;
        const uint64_t taken = first != NULL ? hk_add_relaxed(&first->where, one) >> 32 : LINES;
        if (taken + 1 < LINES)
            return first + 1 + taken;
        if ((first = new_chunk(1)) == NULL)
            return NULL;
        hk_store_release(&rec.nobody, first);
    }
}

/* ---- operations ---- */

/* A thread's next line, after a time line if the tick has changed. NULL: there is none, and the
 * thread has lost its chunk. */
static hk_record_line_t *next_line(hk_record_line_t *at) {
    const uint32_t tick = hk_record_tick();
    if (!hk_record_is_end(at) && tick != hk_load_relaxed(&hk_record_head->tick)) {
        if (!runs())
            return NULL;
        hk_store_relaxed(&hk_record_head->tick, tick);
        note_time(at, thread_of(chunk_of(at)));
        at++;
    }
    return hk_record_is_end(at) ? go_on(at) : at;
}

HK_NOINLINE void hk_record_note_slow(void **own, uint64_t where, size_t n) {
    const int saved = errno;
    hk_record_line_t *at = own != NULL ? next_line(*own) : for_nobody();
    if (own != NULL)
        *own = at != NULL ? at + 1 : NULL;
    n = hk_min(n, ((size_t)1 << 40) - 1);
    if (at != NULL)
        hk_record_write(hk_record_head, at, where | n >> 32 << 56, n);
    else if (hk_load_relaxed(&rec.state) == STOPPED && hk_record_head != NULL &&
             hk_load_relaxed(&hk_record_head->operations) < MOST_COUNTED)
        hk_add_relaxed(&hk_record_head->operations, (uint64_t)1); /* lost, but counted */
    errno = saved;
}

/* One chunk is kept for the next thread, so that short-lived threads, one after the other, share
 * it. */
void hk_record_thread_ends(void **own) {
    hk_record_line_t *at = *own;
    *own = NULL;
    if (at != NULL && !hk_record_is_end(at) && !hk_record_is_end(at + 1))
        at = hk_exchange_seq(&rec.left, at);
    if (at != NULL)
        hk_os_close(chunk_of(at), HK_RECORD_CHUNK);
}

void hk_record_forked(void **own) {
    *own = NULL;
    hk_store_relaxed(&rec.nobody, NULL);
    hk_store_relaxed(&rec.left, NULL);
    const unsigned state = hk_load_relaxed(&rec.state);
    if (state == NONE || state == FORKED)
        return;
    if (hk_record_head != NULL)
        hk_os_unmap(hk_record_head, rec.most);
    hk_record_head = NULL;
    hk_store_relaxed(&rec.threads, 0u);
    hk_store_relaxed(&rec.state, (unsigned)FORKED);
}

void hk_record_end(void) {
    const unsigned state = hk_load_relaxed(&rec.state);
    if (hk_record_head != NULL && (state == RUNS || state == STOPPED))
        hk_store_relaxed(&hk_record_head->end_ns, hk_os_now_ns());
}
