/* Finds the next functions; wraps the functions that copy, measure, convert and print. */
#include "check.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/mman.h>

void *memchr(const void *s, int c, size_t n);

extern next_t first[] __asm__("__start_hk_next") __attribute__((visibility("hidden")));
extern next_t last[] __asm__("__stop_hk_next") __attribute__((visibility("hidden")));

static atomic_bool started;  /* atomic: set once, with all of them found */
static atomic_uint searches; /* atomic: threads that may still write to a next_t */
static _Thread_local bool searching __attribute__((tls_model("initial-exec")));

void *hk_check_search(next_t *next) {
    void *function = NULL;
    if (searching || started)
        return NULL;
    searches++;
    if (!started) {
        searching = true;
        function = dlsym(RTLD_NEXT, next->name);
        searching = false;
        next->found = function;
    }
    searches--;
    return function;
}

/* Makes the section read-only, unless a thread still writes to it. On larger pages it would share a
 * page with other data. */
static void protect(void) {
    const size_t bytes = (size_t)((char *)last - (char *)first) / PAGE * PAGE;
    if (searches == 0 && bytes != 0 && (uintptr_t)first % PAGE == 0 && getauxval(AT_PAGESZ) == PAGE)
        mprotect(first, bytes, PROT_READ);
}

/* Not every C library has all functions; that must not leave an error for dlerror(). */
__attribute__((constructor)) static void start(void) {
    for (next_t *next = first; next < last; next++)
        if (next->name != NULL)
            next_of(next);
    started = true;
    protect();
    dlerror();
}

/* Keeps compilers from turning the loops below into calls of memcpy and the like. */
#define ONE_BY_ONE __asm__ volatile("" ::: "memory")

static void *copied_down(void *target, const void *source, size_t n) {
    char *to = target;
    const char *from = source;
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
        ONE_BY_ONE;
    }
    return target;
}

static void *copied(char *to, const char *from, size_t n) {
    if (to <= from)
        return copied_down(to, from, n);
    while (n-- > 0) {
        to[n] = from[n];
        ONE_BY_ONE;
    }
    return to;
}

static void *filled(char *to, int c, size_t n) {
    for (size_t i = 0; i < n; i++) {
        to[i] = (char)c;
        ONE_BY_ONE;
    }
    return to;
}

/* The rest of a text to convert, or of the room for it. */
static void check_left(char *const *at, const size_t *left) {
    if (at != NULL && *at != NULL)
        check(*at, *left);
}

/* The bytes that memccpy() copies. */
static size_t up_to(const char *from, int c, size_t n) {
    const char *end = memchr(from, c, n);
    return end != NULL ? (size_t)(end - from) + 1 : n;
}

/* A text must end within its block. Before all functions are found this one does without:
 * libhakmem.so measures names before anything may be looked up. */
#define LENGTH(function, parameters, call, most)                                                   \
    EXPORT size_t function parameters {                                                            \
        static next_t next_one __attribute__((section("hk_next"))) = {.name = #function};          \
        next_t *one = &next_one;                                                                   \
        __asm__("" : "+r"(one)); /* it is written to by way of the section */                      \
        size_t(*next) parameters = one->found;                                                     \
        size_t n = 0;                                                                              \
        if (next != NULL)                                                                          \
            n = next call;                                                                         \
        while (next == NULL && n < (most) && s[n] != 0) {                                          \
            n++;                                                                                   \
            ONE_BY_ONE;                                                                            \
        }                                                                                          \
        check(s, times(at_most(n + 1, most), sizeof *s));                                          \
        return n;                                                                                  \
    }
LENGTH(strlen, (const char *s), (s), SIZE_MAX)
LENGTH(strnlen, (const char *s, size_t most), (s, most), most)
LENGTH(wcslen, (const wchar_t *s), (s), SIZE_MAX)
LENGTH(wcsnlen, (const wchar_t *s, size_t most), (s, most), most)

BOTH(void *, memcpy, (void *to, source_t from, size_t n), (check(to, n), check(from, n)),
     (to, from, n), copied_down(to, from, n))
BOTH(void *, mempcpy, (void *to, source_t from, size_t n), (check(to, n), check(from, n)),
     (to, from, n), (char *)copied_down(to, from, n) + n)
BOTH(void *, memmove, (void *to, source_t from, size_t n), (check(to, n), check(from, n)),
     (to, from, n), copied(to, from, n))
BOTH(void *, memset, (void *to, int c, size_t n), check(to, n), (to, c, n), filled(to, c, n))

/* Texts of bytes and of wide characters. strlcpy() and strlcat() are implemented here. */
#define SO_MANY(n) times(n, sizeof *to)
#define TEXTS(char_t, strlen, strnlen, strcpy, stpcpy, strcat, strncpy, stpncpy, strncat, strdup,  \
              strlcpy, strlcat)                                                                    \
    BOTH(char_t *, strcpy, (char_t * to, const char_t *from),                                      \
         check(to, SO_MANY(strlen(from) + 1)), (to, from),                                         \
         copied_down(to, from, SO_MANY(strlen(from) + 1)))                                         \
    BOTH(char_t *, stpcpy, (char_t * to, const char_t *from),                                      \
         check(to, SO_MANY(strlen(from) + 1)), (to, from),                                         \
         (char_t *)copied_down(to, from, SO_MANY(strlen(from) + 1)) + strlen(from))                \
    BOTH(char_t *, strcat, (char_t * to, const char_t *from),                                      \
         check(to, SO_MANY(strlen(to) + strlen(from) + 1)), (to, from),                            \
         (copied_down(to + strlen(to), from, SO_MANY(strlen(from) + 1)), to))                      \
    BOTH(char_t *, strncpy, (char_t * to, const char_t *from, size_t n),                           \
         (check(to, SO_MANY(n)), strnlen(from, n)), (to, from, n), to)                             \
    BOTH(char_t *, stpncpy, (char_t * to, const char_t *from, size_t n),                           \
         (check(to, SO_MANY(n)), strnlen(from, n)), (to, from, n), to)                             \
    BOTH(char_t *, strncat, (char_t * to, const char_t *from, size_t n),                           \
         check(to, SO_MANY(strlen(to) + strnlen(from, n) + 1)), (to, from, n), to)                 \
    CHECKED(char_t *, strdup, (const char_t *s), strlen(s), (s), NULL)                             \
    static size_t own_##strlcpy(char_t *to, const char_t *from, size_t n) {                        \
        const size_t length = strlen(from), copied = n != 0 ? at_most(length, n - 1) : 0;          \
        memcpy(to, from, SO_MANY(copied));                                                         \
        if (n != 0)                                                                                \
            to[copied] = 0;                                                                        \
        return length;                                                                             \
    }                                                                                              \
    OWN(size_t, strlcpy, (char_t * to, const char_t *from, size_t n),                              \
        check(to, SO_MANY(at_most(strlen(from) + 1, n))), own_##strlcpy(to, from, n))              \
    OWN(size_t, strlcat, (char_t * to, const char_t *from, size_t n),                              \
        const size_t before = strnlen(to, n);                                                      \
        check(to, SO_MANY(at_most(before + strlen(from) + 1, n))),                                 \
        before + own_##strlcpy(to + before, from, n - before))
TEXTS(char, strlen, strnlen, strcpy, stpcpy, strcat, strncpy, stpncpy, strncat, strdup, strlcpy,
      strlcat)
TEXTS(wchar_t, wcslen, wcsnlen, wcscpy, wcpcpy, wcscat, wcsncpy, wcpncpy, wcsncat, wcsdup, wcslcpy,
      wcslcat)
CHECKED(char *, strndup, (const char *s, size_t n), strnlen(s, n), (s, n), NULL)
CHECKED(void *, memccpy, (void *to, source_t from, int c, size_t n),
        (check(to, up_to(from, c, n)), check(from, up_to(from, c, n))), (to, from, c, n), to)

BOTH(wchar_t *, wmemcpy, (wchar_t * to, const wchar_t *from, size_t n),
     (check(to, wide(n)), check(from, wide(n))), (to, from, n), to)
BOTH(wchar_t *, wmempcpy, (wchar_t * to, const wchar_t *from, size_t n),
     (check(to, wide(n)), check(from, wide(n))), (to, from, n), to)
BOTH(wchar_t *, wmemmove, (wchar_t * to, const wchar_t *from, size_t n),
     (check(to, wide(n)), check(from, wide(n))), (to, from, n), to)
BOTH(wchar_t *, wmemset, (wchar_t * to, wchar_t c, size_t n), check(to, wide(n)), (to, c, n), to)

/* Conversions between the two, of at most n; the source has another unit, so it is not checked. */
BOTH(size_t, mbstowcs, (wchar_t * to, source_t from, size_t n), check(to, wide(n)), (to, from, n),
     0)
BOTH(size_t, wcstombs, (char *to, source_t from, size_t n), check(to, n), (to, from, n), 0)
BOTH(size_t, mbsrtowcs, (wchar_t * to, source_t *from, size_t n, void *state), check(to, wide(n)),
     (to, from, n, state), 0)
BOTH(size_t, wcsrtombs, (char *to, source_t *from, size_t n, void *state), check(to, n),
     (to, from, n, state), 0)
BOTH(size_t, mbsnrtowcs, (wchar_t * to, source_t *from, size_t most, size_t n, void *state),
     check(to, wide(n)), (to, from, most, n, state), 0)
BOTH(size_t, wcsnrtombs, (char *to, source_t *from, size_t most, size_t n, void *state),
     check(to, n), (to, from, most, n, state), 0)
CHECKED(size_t, iconv, (void *how, char **from, size_t *unread, char **to, size_t *room),
        (check_left(from, unread), check_left(to, room)), (how, from, unread, to, room), (size_t)-1)

/* The length of one character is known only afterwards: it is converted into a buffer, then
 * copied. */
#define CHARACTER(type, name, parameters, call)                                                    \
    EXPORT type name parameters {                                                                  \
        char bytes[MB_LEN_MAX], *aside = to != NULL ? bytes : NULL;                                \
        __typeof__(&name) next = NEXT(name);                                                       \
        const type n = next != NULL ? next call : (type)-1;                                        \
        if (aside != NULL && n != (type)-1)                                                        \
            memcpy(to, bytes, (size_t)n);                                                          \
        return n;                                                                                  \
    }
CHARACTER(size_t, wcrtomb, (char *to, wchar_t c, void *state), (aside, c, state))
CHARACTER(size_t, __wcrtomb_chk, (char *to, wchar_t c, void *state, size_t room),
          (aside, c, state, room))
CHARACTER(int, wctomb, (char *to, wchar_t c), (aside, c))
CHARACTER(int, __wctomb_chk, (char *to, wchar_t c, size_t room), (aside, c, room))

EXPORT void bcopy(source_t from, void *to, size_t n) { memmove(to, from, n); }
EXPORT void bzero(void *to, size_t n) { memset(to, 0, n); }
EXPORT void explicit_bzero(void *to, size_t n) { memset(to, 0, n); }
EXPORT void __explicit_bzero_chk(void *to, size_t n, size_t room) { __memset_chk(to, 0, n, room); }

static size_t even(ssize_t n) { return not_below_0(n) & ~(size_t)1; }
EXPORT void swab(source_t from, void *to, ssize_t n) {
    check(to, even(n)), check(from, even(n));
    __typeof__(&swab) next = NEXT(swab);
    if (next != NULL)
        next(from, to, n);
}

/* ---- printing: the text's length is known only by printing ---- */

int vsnprintf(char *to, size_t n, const char *format, va_list arguments);
int __vsnprintf_chk(char *to, size_t n, int flag, size_t stated, const char *format,
                    va_list arguments);
enum { UNFORTIFIED = -1 };

static int print_at_most(char *to, size_t n, int flag, size_t stated, const char *format,
                         va_list arguments) {
    if (flag != UNFORTIFIED) {
        __typeof__(&__vsnprintf_chk) next = NEXT(__vsnprintf_chk);
        return next != NULL ? next(to, n, flag, stated, format, arguments) : -1;
    }
    __typeof__(&vsnprintf) next = NEXT(vsnprintf);
    return next != NULL ? next(to, n, format, arguments) : -1;
}

/* First prints into the room that the block has. If the text does not fit there, and the program's
 * bound n would let it overrun the block, reports a fault; if faults are only reported, prints as
 * asked for. The fortified form's own checks, of `stated` and of the format, are left to it. */
static int print(char *to, size_t n, int flag, size_t stated, const char *format,
                 va_list arguments) {
    const size_t room = n != 0 && hak_room != NULL ? hak_room(to) : SIZE_MAX;
    va_list again;
    va_copy(again, arguments);
    const size_t most = n <= stated ? at_most(n, room) : n;
    const int length = print_at_most(to, most, flag, stated, format, again);
    va_end(again);
    if (n <= room || length < 0 || (size_t)length < room)
        return length;
    check(to, at_most((size_t)length + 1, n));
    return print_at_most(to, n, flag, stated, format, arguments);
}

EXPORT int vsnprintf(char *to, size_t n, const char *format, va_list arguments) {
    return print(to, n, UNFORTIFIED, SIZE_MAX, format, arguments);
}

EXPORT int __vsnprintf_chk(char *to, size_t n, int flag, size_t stated, const char *format,
                           va_list arguments) {
    return print(to, n, flag, stated, format, arguments);
}

/* Without a bound, the text is first printed without a target: it may read its own target. */
static void check_print(char *to, int flag, const char *format, va_list arguments) {
    va_list again;
    if (hak_room == NULL || hak_room(to) == SIZE_MAX)
        return;
    va_copy(again, arguments);
    const int length = print_at_most(NULL, 0, flag, 0, format, again);
    va_end(again);
    if (length >= 0)
        check(to, (size_t)length + 1);
}

CHECKED(int, vsprintf, (char *to, const char *format, va_list arguments),
        check_print(to, UNFORTIFIED, format, arguments), (to, format, arguments), -1)
CHECKED(int, __vsprintf_chk,
        (char *to, int flag, size_t room, const char *format, va_list arguments),
        check_print(to, flag, format, arguments), (to, flag, room, format, arguments), -1)

/* Wide characters are checked against the stated length: such a function does not return the length
 * of a text that does not fit. */
CHECKED(int, vswprintf, (wchar_t * to, size_t n, const wchar_t *format, va_list arguments),
        check(to, wide(n)), (to, n, format, arguments), -1)
CHECKED(int, __vswprintf_chk,
        (wchar_t * to, size_t n, int flag, size_t room, const wchar_t *format, va_list arguments),
        check(to, wide(n)), (to, n, flag, room, format, arguments), -1)

#define PRINTING(name, parameters, call)                                                           \
    EXPORT int name parameters {                                                                   \
        va_list arguments;                                                                         \
        va_start(arguments, format);                                                               \
        const int length = call;                                                                   \
        va_end(arguments);                                                                         \
        return length;                                                                             \
    }

PRINTING(snprintf, (char *to, size_t n, const char *format, ...),
         vsnprintf(to, n, format, arguments))
PRINTING(__snprintf_chk, (char *to, size_t n, int flag, size_t room, const char *format, ...),
         __vsnprintf_chk(to, n, flag, room, format, arguments))
PRINTING(sprintf, (char *to, const char *format, ...), vsprintf(to, format, arguments))
PRINTING(__sprintf_chk, (char *to, int flag, size_t room, const char *format, ...),
         __vsprintf_chk(to, flag, room, format, arguments))
PRINTING(swprintf, (wchar_t * to, size_t n, const wchar_t *format, ...),
         vswprintf(to, n, format, arguments))
PRINTING(__swprintf_chk,
         (wchar_t * to, size_t n, int flag, size_t room, const wchar_t *format, ...),
         __vswprintf_chk(to, n, flag, room, format, arguments))
