/* What the allocator says aloud: a formatter that never allocates, and the one line of a fatal
 * error. */
#ifndef HK_BASE_REPORT_H
#define HK_BASE_REPORT_H

#include "base/base.h"

/* A line under construction. len <= sizeof text; what does not fit is dropped. */
typedef struct {
    size_t len;
    char text[1024];
} hk_line_t;

void hk_line_str(hk_line_t *line, const char *s);
/* Appends at most n bytes of s, and "..." where that is not all of it. */
void hk_line_str_most(hk_line_t *line, const char *s, size_t n);
void hk_line_u64(hk_line_t *line, uint64_t value);
void hk_line_hex(hk_line_t *line, uint64_t value);
/* Appends s with the characters JSON reserves escaped. */
void hk_line_json(hk_line_t *line, const char *s);
/* Appends spaces up to this column; at least one. */
void hk_line_pad(hk_line_t *line, size_t column);
/* What is there, as a string; valid until the line changes. */
const char *hk_line_text(hk_line_t *line);
/* Writes what is there, without a newline, and empties the line: for texts longer than one. */
void hk_line_flush(hk_line_t *line, int fd);
/* Appends a path with each %p in it replaced by the process's number, and ends the text there; room
 * for a suffix remains. *numbered: whether there was one. False: it is too long. */
bool hk_line_path(hk_line_t *line, const char *pattern, bool *numbered);
/* Writes the line and a newline with one write(2); errno is kept. */
void hk_line_write(hk_line_t *line, int fd);

/* The kinds of heap corruption: the user's bug, always checked, one fixed message each. */
typedef enum { HK_DOUBLE_FREE, HK_INVALID_FREE, HK_INVALID_POINTER } hk_fatal_t;

/* Prints "hakmem: fatal: <kind>: 0x<pointer>" and aborts. */
_Noreturn void hk_fatal(hk_fatal_t kind, const void *p);

#endif
