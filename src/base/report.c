#include "base/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/calls.h"

static void put(hk_line_t *line, const char *s, size_t n) {
    hk_assert(line->len < sizeof line->text);        /* or there would be room without end */
    size_t room = sizeof line->text - 1 - line->len; /* one byte is kept for the newline */
    n = hk_min(n, room);
    memcpy(line->text + line->len, s, n);
    line->len += n;
}

static void put_number(hk_line_t *line, uint64_t value, unsigned base) {
    char digits[24];
    size_t at = sizeof digits;
    hk_assert(base >= 10 && base <= 16); /* 24 are enough, and there are as many signs */
    do {
        digits[--at] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    put(line, digits + at, sizeof digits - at);
}

void hk_line_str(hk_line_t *line, const char *s) { put(line, s, strlen(s)); }

void hk_line_str_most(hk_line_t *line, const char *s, size_t n) {
    size_t len = strnlen(s, n);
    put(line, s, len);
    if (s[len] != '\0')
        put(line, "...", 3);
}

void hk_line_u64(hk_line_t *line, uint64_t value) { put_number(line, value, 10); }

void hk_line_hex(hk_line_t *line, uint64_t value) {
    put(line, "0x", 2);
    put_number(line, value, 16);
}

void hk_line_json(hk_line_t *line, const char *s) {
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            put(line, (char[]){'\\', *s}, 2);
        } else if (c < 0x20) {
            const char *hex = "0123456789abcdef";
            put(line, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
        } else {
            put(line, s, 1);
        }
    }
}

void hk_line_pad(hk_line_t *line, size_t column) {
    do
        put(line, " ", 1);
    while (line->len < hk_min(column, sizeof line->text - 1));
}

const char *hk_line_text(hk_line_t *line) {
    hk_assert(line->len < sizeof line->text);
    line->text[line->len] = '\0';
    return line->text;
}

void hk_line_flush(hk_line_t *line, int fd) {
    hk_assert(line->len <= sizeof line->text && fd >= 0);
    int saved = errno;
    ssize_t ignored = HK_CALL(other, write(fd, line->text, line->len));
    (void)ignored; /* there is nobody left to tell */
    line->len = 0;
    errno = saved;
}

bool hk_line_path(hk_line_t *line, const char *pattern, bool *numbered) {
    enum { ROOM = 64 };
    *numbered = false;
    for (const char *s = pattern; *s != '\0'; s++) {
        if (line->len > sizeof line->text - ROOM)
            return false;
        if (s[0] == '%' && s[1] == 'p') {
            hk_line_u64(line, (uint64_t)HK_CALL(other, getpid()));
            *numbered = true;
            s++;
        } else {
            put(line, s, 1);
        }
    }
    line->text[line->len] = '\0';
    hk_assert(line->len <= sizeof line->text - ROOM / 2); /* for the suffix */
    return true;
}

void hk_line_write(hk_line_t *line, int fd) {
    hk_assert(line->len < sizeof line->text); /* put() keeps this byte */
    line->text[line->len++] = '\n';
    hk_line_flush(line, fd);
}

atomic_uint hk_on_fault;
atomic_uint hk_faults;

static void put_fault(hk_line_t *line, const char *how, hk_fatal_t kind, const void *p) {
    static const char *const names[] = {
#define HK_FAULT(kind, words, doc) [HK_##kind] = (words),
#include "base/faults.def"
#undef HK_FAULT
    };
    hk_assert((unsigned)kind < sizeof names / sizeof names[0]);
    hk_line_str(line, how);
    hk_line_str(line, names[kind]);
    hk_line_str(line, ": ");
    hk_line_hex(line, (uint64_t)(uintptr_t)p);
}

static _Noreturn void end(void) {
    if (hk_load_relaxed(&hk_on_fault) == HK_ON_FAULT_TRAP)
        __builtin_trap();
    abort();
}

_Noreturn HK_COLD void hk_fatal(hk_fatal_t kind, const void *p) {
    hk_line_t line = {0};
    put_fault(&line, "hakmem: fatal: ", kind, p);
    hk_line_write(&line, STDERR_FILENO);
    end();
}

static bool goes_on(void) { return hk_load_relaxed(&hk_on_fault) == HK_ON_FAULT_REPORT; }

HK_COLD void hk_fault_say(hk_fatal_t kind, const void *p, size_t bytes, ptrdiff_t at) {
    hk_line_t line = {0};
    put_fault(&line, goes_on() ? "hakmem: error: " : "hakmem: fatal: ", kind, p);
    if (bytes != HK_NO_SIZE) {
        hk_line_str(&line, ", a block of ");
        hk_line_u64(&line, bytes);
        hk_line_str(&line, bytes == 1 ? " byte" : " bytes");
    }
    if (at != HK_NOWHERE) {
        hk_line_str(&line, at < 0 ? ", at byte -" : ", at byte ");
        hk_line_u64(&line, (uint64_t)(at < 0 ? -at : at));
    }
    hk_line_str(&line, ", in thread ");
    hk_line_u64(&line, (uint64_t)HK_CALL(other, gettid()));
    hk_line_write(&line, STDERR_FILENO);
    hk_add_relaxed(&hk_faults, 1u);
}

HK_COLD void hk_fault_end(void) {
    if (!goes_on())
        end();
}

HK_COLD void hk_fault(hk_fatal_t kind, const void *p, size_t bytes, ptrdiff_t at) {
    hk_fault_say(kind, p, bytes, at);
    hk_fault_end();
}

#if HK_DEBUG
_Noreturn HK_COLD void hk_assert_failed(const char *what, const char *file, int line_number) {
    hk_line_t line = {0};
    hk_line_str(&line, "hakmem: assertion failed: ");
    hk_line_str(&line, what);
    hk_line_str(&line, " at ");
    hk_line_str(&line, file);
    hk_line_str(&line, ":");
    hk_line_u64(&line, (uint64_t)line_number);
    hk_line_write(&line, STDERR_FILENO);
    abort();
}
#endif
