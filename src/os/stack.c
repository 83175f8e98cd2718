/* Stacks are read by the compiler's unwinder, which needs no frame pointers: to follow those where some functions
 * keep none leaves callers out without a sign. Where it knows a function not, and from code on that is in no file, as
 * it was made at run time, they are followed as far as they are plausible. What such code has registered with the
 * unwinder is not believed: it ends the process where it makes no sense of that. */
#include "os/stack.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include "base/calls.h"
#include "base/report.h"
#include "os/os.h"
#include "os/unwinder.h"

#if defined(__x86_64__)
enum { FRAME_POINTER = 6, RETURN_IS_BELOW = true }; /* the stack pointer of who is returned to */
#else
enum { FRAME_POINTER = 29, RETURN_IS_BELOW = false };
#endif

/* A frame is no larger than this, if its pointer is one. */
#define MOST_FRAME (16 * HK_MIB)

static hk_unwinder_t unwinder; /* const once ready */
static atomic_bool ready;      /* atomic: set once */

/* Our own file: the library's or, where it is linked in statically, the program's. */
extern const char file[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
static size_t file_bytes; /* const once ready */
static bool skips;        /* const once ready: we are not the program */

/* False: an unwinder does not find its tables, and ends the process. So it is with gcc's -static, in programs whose
 * start has not registered them with the one unwinder that they have. */
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

/* The process's, which takes a lock if anything has been registered with it. */
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
    hk_stack_read(&frame, 1); /* what it does the first time, it has done */
    return true;
}

/* The unwinder interprets tables for each frame. What it found last is kept, for a few threads: once it comes to a
 * frame that was there then, those further out are the same as long as their return addresses stand where they
 * stood. Our own are among them, so that who comes from the same place again is known by the first frame. */
enum { DEEPEST = 64, OWN = 8, KEPT = 16 };
typedef struct {
    unsigned count, own; /* how many there are; of them our own functions, which come first */
    void *frames[OWN + DEEPEST];
    uintptr_t sp[OWN + DEEPEST]; /* of each */
} found_t;
typedef struct {
    atomic_bool busy; /* atomic: somebody is at it; or was, when the process forked */
    found_t found;
} kept_t;
static kept_t kept[KEPT];

typedef struct {
    void **frames;
    unsigned count, most;
    bool skipping;        /* our own functions, which come first */
    uintptr_t pc, sp, fp; /* of the frame looked at last */
    const found_t *last;  /* NULL: not to be had */
    unsigned at;          /* of `last`: what lies further in has been passed */
    found_t now;          /* for the next one */
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

/* Adds the frame looked at and all further out, where they are the same as last time. */
static bool knows_the_rest(walk_t *w) {
    const found_t *last = w->last;
    found_t *now = &w->now;
    uintptr_t known = 0; /* a page that can be read */
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

/* Whether the code that returns there is of a file, as far as that can be told. */
static bool is_in_a_file(uintptr_t pc) {
    uint64_t found[32]; /* struct dl_find_object, with room to grow */
    return unwinder.object == NULL || unwinder.object((void *)(pc - 1), found) == 0;
}

static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *argument) {
    walk_t *w = argument;
    int interrupted = 0; /* by a signal: then it is not behind a call */
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

/* aarch64 may have signed it, in bits that no address has. */
static uintptr_t without_signature(uintptr_t pc) {
#if defined(__aarch64__)
    register uintptr_t x30 __asm__("x30") = pc;
    __asm__("hint 7" : "+r"(x30)); /* xpaclri */
    pc = x30;
#endif
    return pc;
}

/* Each frame's pointer points at the caller's, beside which lies the return address: if there is something to return to. */
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
    kept_t *last = &kept[here / (8 * HK_MIB) % KEPT]; /* a thread's stack has as much room */
    const bool keeps =
        RETURN_IS_BELOW && most <= DEEPEST && !hk_exchange_acquire(&last->busy, true);
    w.last = keeps ? &last->found : NULL;
    unwinder.walk(look, &w);
    if (w.pc != 0)
        follow_frame_pointers(&w);
    if (keeps) {
        const unsigned n = w.count < most && w.now.count < OWN + DEEPEST ? w.now.count : 0;
        last->found.count = n; /* a part would be taken for all */
        last->found.own = w.now.own;
        memcpy(last->found.frames, w.now.frames, n * sizeof *w.now.frames);
        memcpy(last->found.sp, w.now.sp, n * sizeof *w.now.sp);
        hk_store_release(&last->busy, false);
    }
    return w.count;
}

/* A line each, as backtrace_symbols_fd() of the C library writes them, in which a thread may be cancelled. */
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
