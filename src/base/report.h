/* What the allocator says aloud: a formatter that never allocates, and the one line of a fatal
 * error. */
#pragma once

#include <stdarg.h>

#include "base/base.h"
#include "base/lock.h"

/* A line under construction. len <= sizeof text; what does not fit is dropped. */
typedef struct {
    size_t len;
    char text[1024];
} hk_line_t;

/* Appends as printf does, of whose conversions there are %s, %lu, %lx and %#lx, with a width ('-' and '0'
 * before it, or '*') or, of %s, the precision '*'. */
void hk_line_put(hk_line_t *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hk_line_put_list(hk_line_t *line, const char *format, va_list *values);
void hk_line_str(hk_line_t *line, const char *s);
/* Appends at most n bytes of s, and "..." where that is not all of it. */
void hk_line_str_most(hk_line_t *line, const char *s, size_t n);
/* Appends s with the characters JSON reserves escaped. */
void hk_line_json(hk_line_t *line, const char *s);
/* What is there, as a string; valid until the line changes. */
const char *hk_line_text(hk_line_t *line);
/* Appends a path with each %p in it replaced by the process's number, which where there is none and it is to be `numbered`
 * comes behind it; and ends the text there. Room for a suffix remains. False: it is too long. */
bool hk_line_path(hk_line_t *line, const char *pattern, bool numbered);
/* Where the path is a relative one, all of these are from now on of the folder that the process is in now, the first time: it may
 * change that. Keeps errno. */
void hk_path_keep(const char *path);
/* As open(2), closed by exec; but never 0 to 2, where the program has closed these: what other threads write there would
 * be in the file. Of a pipe that nobody reads it is an error. */
int hk_open(const char *path, int flags, unsigned mode);
/* As strerror, but it takes no locks: that one may, to translate. */
const char *hk_error_text(int error);
/* Writes the line and a newline, with one write(2) unless a signal or the system cuts it, and empties it; errno is kept. */
void hk_line_write(hk_line_t *line, int fd);
/* Around writing: beyond a limit on the size of files, and where nobody reads any more, the system also sends a signal, by which
 * the process would end. It is held back, and taken away where errno has said so. */
typedef struct {
    uint64_t before,
        waiting; /* signals, a bit for each: which the thread blocked, and which of these were there already */
    bool held;
} hk_held_signals_t;
hk_held_signals_t hk_write_begin(void);
void hk_write_end(hk_held_signals_t held, int error);
/* Writes all of it, so; 0, or errno as write(2) left it. A full pipe that does not block is waited for where it is stdout or
 * stderr, a second in all for what is written within ten. Signal handlers may. */
int hk_write_all(int fd, const void *bytes, size_t n);
/* A text of any length on its way to a file, in pieces of less than so many bytes each. */
enum { HK_LONGEST_PIECE = 512 };
typedef struct {
    int fd;
    int error; /* the first one; nothing is written after it */
    hk_line_t line;
} hk_output_t;
void hk_output_put(hk_output_t *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hk_output_flush(hk_output_t *out);
/* Whether what is open there is this file still, whatever has been closed and opened meanwhile. */
struct stat;
bool hk_is_file(int fd, const struct stat *file);
/* Where lines go: stderr or, where the program has closed its own, as many do before they end, the copy that
 * was made at the start because something is to be written at the end. A forked child has none, for it may be a
 * daemon whose parent's caller waits for the end of the file. */
int hk_stderr(void);
void hk_stderr_keep(void);
void hk_stderr_forked(void);
/* Held while a file about the process is written, or it changes which are; no lock of the allocator's is. In a fork's
 * child, which has none of the threads that may have held it, it is free again. */
extern hk_lock_t hk_writing;
void hk_writing_forked(void);

/* A line of its own, there. */
void hk_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reads decimal digits, and moves *s behind them. False: there are none, or too many. */
bool hk_parse(const char **s, uint64_t *value);

/* Of words separated by bars: where the one of this number begins, NULL where there are not so many; and the number
 * of the one that is `text`, of so many bytes. */
const char *hk_word_at(const char *words, uint64_t number);
bool hk_word_find(const char *words, const char *text, size_t len, uint64_t *number);

/* The kinds of heap corruption: the user's bug, one fixed message each (faults.def). */
typedef enum {
#define HK_FAULT(kind, words, doc) HK_##kind,
#include "base/faults.def"
} hk_fatal_t;

/* What happens then: HAKMEM_ON_FAULT, by its words. */
typedef enum { HK_ON_FAULT_ABORT, HK_ON_FAULT_TRAP, HK_ON_FAULT_REPORT } hk_on_fault_t;
extern atomic_uint hk_on_fault; /* atomic: any thread reads; set at the start of the process */

/* Prints "hakmem: fatal: <kind>: 0x<pointer>" and ends the process, also where faults are only to be
 * reported: there is no going on. */
_Noreturn void hk_fatal(hk_fatal_t kind, const void *p);

/* The same where there is, in two steps. The line, of a block of so many bytes as were asked for, whose
 * byte `at` was misused, in a class of so many bytes (HK_NO_SIZE, HK_NOWHERE: not known), with what was claimed of the block, which is
 * said as it is (", freed as ...", or ""); and the end, which returns where faults are only to be reported. */
#define HK_NOWHERE PTRDIFF_MAX
#define HK_NO_SIZE SIZE_MAX
void hk_fault_say(hk_fatal_t kind, const void *p, size_t bytes, ptrdiff_t at, size_t class_bytes,
                  const char *claim);
void hk_fault_end(void);
