/* What hakmem writes: a formatter that never allocates, files, stderr, and the line of a fatal
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

/* Appends as printf does. Conversions: %s, %lu, %lx and %#lx, with a width ('-' or '0' before it,
 * or '*'), and for %s the precision '*'. */
void hk_line_put(hk_line_t *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hk_line_put_list(hk_line_t *line, const char *format, va_list *values);
void hk_line_str(hk_line_t *line, const char *s);
/* Appends at most n bytes of s, and "..." if s is longer. */
void hk_line_str_most(hk_line_t *line, const char *s, size_t n);
/* Appends s with the characters JSON reserves escaped. */
void hk_line_json(hk_line_t *line, const char *s);
/* The line as a string, valid until the line changes. */
const char *hk_line_text(hk_line_t *line);
/* Appends a path with each %p replaced by the process's number. A path without %p that is
 * `numbered` gets ".NUMBER" appended. Terminates the text; room for a suffix remains. False: it is
 * too long. */
bool hk_line_path(hk_line_t *line, const char *pattern, bool numbered);
/* If the path is relative, notes the current folder, the first time: from then on all relative
 * paths are relative to it, even if the program changes its folder. Keeps errno. */
void hk_path_keep(const char *path);
/* As open(2), with close-on-exec. Never returns 0 to 2, which the program may have closed: what
 * other threads write there would end up in the file. Opening a pipe without a reader is an
 * error. */
int hk_open(const char *path, int flags, unsigned mode);
/* As strerror(), but takes no locks (translation may). */
const char *hk_error_text(int error);
/* Writes the line and a newline, with one write(2) unless a signal or the system cuts it short, and
 * empties the line. Keeps errno. */
void hk_line_write(hk_line_t *line, int fd);
/* Writes all n bytes; returns 0 or write(2)'s error, without the signal that the system sends with
 * it. If fd is stdout or stderr, waits for room in a full non-blocking pipe, at most one second in
 * total for all writes within ten seconds. Signal handlers may call it. */
int hk_write_all(int fd, const void *bytes, size_t n);
/* A text of any length, written to a file in pieces of less than HK_LONGEST_PIECE bytes each. */
enum { HK_LONGEST_PIECE = 512 };
typedef struct {
    int fd;
    int error; /* the first error; nothing is written after it */
    hk_line_t line;
} hk_output_t;
void hk_output_put(hk_output_t *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hk_output_flush(hk_output_t *out);
/* Whether fd still refers to this file; the program may have closed and reopened it. */
struct stat;
bool hk_is_file(int fd, const struct stat *file);
/* The descriptor for lines: stderr or, if the program has closed it, as many do before they end,
 * the copy that hk_stderr_keep() made at the start because something is to be written at the end. A
 * forked child drops the copy: it may be a daemon, and its parent's caller may wait for the end of
 * the file. */
int hk_stderr(void);
void hk_stderr_keep(void);
void hk_stderr_forked(void);
/* Held while a report about the process is written, or while it changes which ones are; taken with
 * no lock of the allocator's held. A fork's child, without the threads that may have held it, frees
 * it. */
extern hk_lock_t hk_writing;
void hk_writing_forked(void);

/* Writes one line to hk_stderr(). */
void hk_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reads a decimal number and moves *s behind it. False: there is none, or it is too large. */
bool hk_parse(const char **s, uint64_t *value);

/* Words separated by bars: the start of the word with this number, NULL if there are fewer; the
 * number of the word that equals `text`, of `len` bytes. */
const char *hk_word_at(const char *words, uint64_t number);
bool hk_word_find(const char *words, const char *text, size_t len, uint64_t *number);

/* The kinds of heap corruption, bugs of the program, with a fixed message each (faults.def). */
typedef enum {
#define HK_FAULT(kind, words, doc) HK_##kind,
#include "base/faults.def"
} hk_fatal_t;

/* HAKMEM_ON_FAULT: what happens after a fault. */
typedef enum { HK_ON_FAULT_ABORT, HK_ON_FAULT_TRAP, HK_ON_FAULT_REPORT } hk_on_fault_t;
extern atomic_uint hk_on_fault; /* atomic: any thread reads; set at the start of the process */

/* Prints "hakmem: fatal: <kind>: 0x<pointer>" and ends the process, even if faults are only to be
 * reported: the process cannot go on. */
_Noreturn void hk_fatal(hk_fatal_t kind, const void *p);

/* For faults after which it can, in two steps. hk_fault_say() prints the line: a block for which
 * `bytes` were asked for was misused at byte `at`; it has class_bytes (HK_NO_SIZE, HK_NOWHERE:
 * unknown). `claim` is appended as it is (", freed as ...", or ""). hk_fault_end() ends the
 * process; it returns if faults are only to be reported. */
#define HK_NOWHERE PTRDIFF_MAX
#define HK_NO_SIZE SIZE_MAX
void hk_fault_say(hk_fatal_t kind, const void *p, size_t bytes, ptrdiff_t at, size_t class_bytes,
                  const char *claim);
void hk_fault_end(void);
