/* Makes the process a guarded one, and checks the report with which the guard ends a child. */
#pragma once

#include "backend/limit.h"
#include "base/report.h"
#include "check.h"
#include "config/config.h"
#include "front/boundary.h"
#include "front/guarded.h"
#include "hakmem/hakmem.h"
#include "os/os.h"

static inline void *hidden(void *p) {
    __asm__ volatile("" : "+r"(p));
    return p;
}

static inline void guard(void) {
    hk_store_relaxed(&hk_config.guard, 1u);
    hk_guarded_start();
    hk_front_apply();
    CHECK(hk_guarded());
}

/* Fails unless fn(argument), run in a child, aborts and its output begins with `said`. */
static inline void check_fault(void (*fn)(void *), void *argument, const char *said) {
    static child_t child;
    child_run(&child, fn, argument);
    if (strstr(child.text, said) != child.text) {
        dprintf(STDERR_FILENO, "got %s, expected %s...\n", child.text, said);
        _exit(1);
    }
    CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
}

/* Switches fences for large blocks on or off; the guard's settings are read-only otherwise. */
static inline void set_fences(bool on) {
    const bool is_kept = hk_os_page_size() == sizeof hk_guard_page;
    CHECK(!is_kept || hk_os_protect(&hk_guard_page, sizeof hk_guard_page, HK_READ_WRITE));
    hk_guard->fences = on;
    CHECK(!is_kept || hk_os_protect(&hk_guard_page, sizeof hk_guard_page, HK_READ));
}

static inline void free_it(void *p) { hak_free(p); }
static inline void ask_size(void *p) { hak_usable_size(p); }
static inline void resize_it(void *p) { hidden(hak_realloc(p, 5000)); }

#define CHECK_FAULT(fn, p, kind, rest)                                                             \
    do {                                                                                           \
        char line[160];                                                                            \
        snprintf(line, sizeof line, "hakmem: fatal: %s: 0x%" PRIxPTR "%s, in thread ", kind,       \
                 (uintptr_t)(p), rest);                                                            \
        check_fault(fn, p, line);                                                                  \
    } while (0)

/* Bytes held, without the headers of fenced blocks, which are never given back. */
static inline size_t held_but_headers(void) { return hk_held() - hk_own_written(); }
