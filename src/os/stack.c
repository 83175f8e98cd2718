/* Reads stacks by the compiler's unwinder, which needs no frame pointers: a walk by frame pointers
 * leaves out callers, silently, where some functions keep none. From a function that the unwinder
 * does not know, and from code in no file (made at run time), it goes on by frame pointers as far
 * as these are plausible. Unwind tables that such code has registered are not used: the unwinder
 * ends the process if it cannot interpret them. */
#include "os/stack.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include "base/calls.h"
#include "base/report.h"
#include "os/os.h"
#include "os/unwinder.h"

#if defined(__x86_64__)
enum { FRAME_POINTER = 6, RETURN_IS_BELOW = true }; /* of the caller's stack pointer */
#else
enum { FRAME_POINTER = 29, RETURN_IS_BELOW = false };
#endif

/* A larger frame means that its pointer is none. */
#define MOST_FRAME (16 * HK_MIB)

static hk_unwinder_t unwinder; /* const once ready */
static atomic_bool ready;      /* atomic: set once */

/* Our own file: the shared library, or the program if hakmem is linked statically. */
extern const char file[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
static size_t file_bytes; /* const once ready */
static bool skips;        /* const once ready: our frames are left out */

/* False: the file has no table that an unwinder finds, which would end the process. That is so with
 * gcc's -static, unless the program's startup code has registered its tables with its one
 * unwinder. */
static bool measure_file(void) {
    const ElfW(Ehdr) *head = (const void *)file;
    const ElfW(Phdr) *part = (const void *)(file + head->e_phoff);
    bool finds_tables = false;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        if (part[i].p_type == PT_LOAD)
            file_bytes = hk_max(file_bytes, part[i].p_vaddr + part[i].p_memsz);
        finds_tables = finds_tables || part[i].p_type == PT_GNU_EH_FRAME;
    }
    return finds_tables;
}

static bool is_in_our_file(uintptr_t pc) { return pc - (uintptr_t)file < file_bytes; }

/* The process's unwinder, which takes a lock if anything has been registered with it. */
static void load_unwinder(void) {
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
    *(void **)&unwinder.address = dlsym(library, "_Unwind_GetIPInfo");
    *(void **)&unwinder.stack = dlsym(library, "_Unwind_GetCFA");
    *(void **)&unwinder.reg = dlsym(library, "_Unwind_GetGR");
    *(void **)&unwinder.walk = dlsym(library, "_Unwind_Backtrace");
}

bool hk_stack_prepare(void) {
    void *frame;
    const int saved = errno;
    if (hk_load_acquire(&ready))
        return true;
    if (hk_unwinder_own != NULL)
        hk_unwinder_own(&unwinder);
    else
        load_unwinder();
    *(void **)&unwinder.object = dlsym(RTLD_DEFAULT, "_dl_find_object");
    errno = saved;
    if (unwinder.walk == NULL || !measure_file())
        return false;
    skips = !is_in_our_file(getauxval(AT_PHDR));
    hk_store_release(&ready, true);
    hk_stack_read(&frame, 1); /* does now what the unwinder does once */
    return true;
}

/* A cache, because the unwinder interprets tables for each frame. For a few threads the last stack
 * is kept: when a walk reaches a frame of it, all outer frames are the same as long as their return
 * addresses still stand in their places. Our own frames are kept too, so that another call from the
 * same place matches at the first frame. */
enum { DEEPEST = 64, OWN = 8, KEPT = 16 };
typedef struct {
    unsigned count, own; /* all frames; those of our own functions, which come first */
    void *frames[OWN + DEEPEST];
    uintptr_t sp[OWN + DEEPEST]; /* stack pointer of each */
} found_t;
typedef struct {
    atomic_bool busy; /* atomic: a thread uses it, or did so when the process forked */
    found_t found;
} kept_t;
static kept_t kept[KEPT];

typedef struct {
    void **frames;
    unsigned count, most;
    bool skipping;        /* still in our own functions */
    uintptr_t pc, sp, fp; /* of the present frame */
    const found_t *last;  /* NULL: not available */
    unsigned at;          /* index in `last`; inner frames have been passed */
    found_t now;          /* to be kept for the next walk */
} walk_t;

static void note(walk_t *w, uintptr_t pc) {
    found_t *now = &w->now;
    w->skipping = w->skipping && is_in_our_file(pc);
    if (w->count == w->most)
        return;
    if (w->last != NULL && now->count < OWN + DEEPEST) {
        now->sp[now->count] = w->sp;
        now->frames[now->count++] = (void *)pc;
    }
    if (w->skipping)
        now->own++;
    else
        w->frames[w->count++] = (void *)pc;
}

bool hk_os_peek(void *to, uintptr_t from, size_t n) {
    const size_t page = hk_os_page_size();
    for (uintptr_t at = from; at - from < n; at = (at & ~(page - 1)) + page)
        if (!hk_os_readable((const void *)at))
            return false;
    memcpy(to, (const void *)from, n);
    return true;
}

/* If the present frame is one of the last stack and all outer ones still stand, adds them all. */
static bool knows_the_rest(walk_t *w) {
    const found_t *last = w->last;
    found_t *now = &w->now;
    uintptr_t known = 0; /* number of a page known to be readable */
    while (w->at < last->count && last->sp[w->at] < w->sp)
        w->at++;
    const unsigned from = w->at, left = last->count - from;
    const unsigned own = from < last->own ? last->own - from : 0;
    const unsigned n = own + (unsigned)hk_min(left - own, w->most - w->count);
    if (left == 0 || n > OWN + DEEPEST - now->count || last->sp[from] != w->sp ||
        last->frames[from] != (void *)w->pc || (own != 0) != (w->skipping && is_in_our_file(w->pc)))
        return false;
    for (unsigned i = from; i < from + n; i++) {
        void *const *returns = (void *const *)last->sp[i] - 1;
        const uintptr_t page = (uintptr_t)returns / hk_os_page_size();
        if ((page != known && !hk_os_readable(returns)) || *returns != last->frames[i])
            return false;
        known = page;
    }
    memcpy(w->frames + w->count, last->frames + from + own, (n - own) * sizeof *w->frames);
    memcpy(now->frames + now->count, last->frames + from, n * sizeof *now->frames);
    memcpy(now->sp + now->count, last->sp + from, n * sizeof *now->sp);
    now->count += n;
    now->own += own;
    w->count += n - own;
    w->pc = 0;
    return true;
}

/* Whether the code at that return address lies in a file; true if unknown. */
static bool is_in_a_file(uintptr_t pc) {
    uint64_t found[32]; /* struct dl_find_object, with room to grow */
    return unwinder.object == NULL || unwinder.object((void *)(pc - 1), found) == 0;
}

static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *argument) {
    walk_t *w = argument;
    int interrupted = 0; /* by a signal: then pc does not follow a call */
    w->pc = unwinder.address(context, &interrupted);
    if (interrupted != 0 && w->pc != 0)
        w->pc++;
    w->sp = unwinder.stack(context);
    w->fp = unwinder.reg(context, FRAME_POINTER);
    if (w->pc != 0 && (w->last == NULL || !knows_the_rest(w)))
        note(w, w->pc);
    return w->pc != 0 && w->count < w->most && is_in_a_file(w->pc) ? _URC_NO_REASON
                                                                   : _URC_END_OF_STACK;
}

/* aarch64 may sign return addresses in bits that no address uses. */
static uintptr_t without_signature(uintptr_t pc) {
#if defined(__aarch64__)
    register uintptr_t x30 __asm__("x30") = pc;
    __asm__("hint 7" : "+r"(x30)); /* xpaclri */
    pc = x30;
#endif
    return pc;
}

/* Follows frame pointers: each points at the caller's, beside which lies the return address. Stops
 * where that points at nothing readable. */
static void follow_frame_pointers(walk_t *w) {
    uintptr_t frame[2];
    while (w->count < w->most && w->fp - w->sp < MOST_FRAME &&
           hk_is_aligned(w->fp, sizeof *frame) && hk_os_peek(frame, w->fp, sizeof frame)) {
        const uintptr_t pc = without_signature(frame[1]);
        if (!hk_os_readable((const void *)(pc - 1)))
            break;
        w->sp = w->fp + sizeof frame;
        note(w, pc);
        w->fp = frame[0];
    }
}

HK_NOINLINE unsigned hk_stack_read(void **frames, unsigned most) {
    walk_t w;
    w.frames = frames;
    w.count = 0;
    w.most = most;
    w.skipping = skips;
    w.pc = w.sp = w.fp = 0;
    w.at = w.now.count = w.now.own = 0;
    if (!hk_load_acquire(&ready))
        return 0;
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    kept_t *last = &kept[here / (8 * HK_MIB) % KEPT]; /* a thread's stack is about as large */
    const bool keeps =
        RETURN_IS_BELOW && most <= DEEPEST && !hk_exchange_acquire(&last->busy, true);
    w.last = keeps ? &last->found : NULL;
    unwinder.walk(look, &w);
    if (w.pc != 0)
        follow_frame_pointers(&w);
    if (keeps) {
        const unsigned n = w.count < most && w.now.count < OWN + DEEPEST ? w.now.count : 0;
        last->found.count = n; /* 0 if it is not whole: it would pass for the whole stack */
        last->found.own = w.now.own;
        memcpy(last->found.frames, w.now.frames, n * sizeof *w.now.frames);
        memcpy(last->found.sp, w.now.sp, n * sizeof *w.now.sp);
        hk_store_release(&last->busy, false);
    }
    return w.count;
}

/* In the format of backtrace_symbols_fd(), which is a cancellation point. */
void hk_stack_print(void *const *frames, unsigned count) {
    const int saved = errno;
    for (unsigned i = 0; i < count; i++) {
        const uintptr_t at = (uintptr_t)frames[i];
        hk_line_t line = {0};
        Dl_info of;
        if (dladdr(frames[i], &of) != 0) {
            const bool named = of.dli_sname != NULL;
            const void *from = named ? of.dli_saddr : of.dli_fbase;
            hk_line_put(&line, "%s(%s+%#lx)", of.dli_fname, named ? of.dli_sname : "",
                        at - (uintptr_t)from);
        }
        hk_line_put(&line, "[%#lx]", at);
        hk_line_write(&line, hk_stderr());
    }
    errno = saved;
}
