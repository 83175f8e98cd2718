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

/* The kinds of heap corruption: the user's bug, one fixed message each (faults.def). */
typedef enum {
#define HK_FAULT(kind, words, doc) HK_##kind,
#include "base/faults.def"
#undef HK_FAULT
} hk_fatal_t;

/* What happens then: HAKMEM_ON_FAULT, by its words. */
typedef enum { HK_ON_FAULT_ABORT, HK_ON_FAULT_TRAP, HK_ON_FAULT_REPORT } hk_on_fault_t;
extern atomic_uint hk_on_fault; /* atomic: any thread reads; set at the start of the process */

/* Prints "hakmem: fatal: <kind>: 0x<pointer>" and ends the process, also where faults are only to be
 * reported: there is no going on. */
_Noreturn void hk_fatal(hk_fatal_t kind, const void *p);

/* The same where there is, in two steps. The line, of a block of so many bytes as were asked for, whose
 * byte `at` was misused (HK_NO_SIZE, HK_NOWHERE: not known); and the end, which returns where faults are
 * only to be reported. */
#define HK_NOWHERE PTRDIFF_MAX
#define HK_NO_SIZE SIZE_MAX
void hk_fault_say(hk_fatal_t kind, const void *p, size_t bytes, ptrdiff_t at);
void hk_fault_end(void);
void hk_fault(hk_fatal_t kind, const void *p, size_t bytes, ptrdiff_t at);

/* Faults said so far. */
extern atomic_uint hk_faults;

#endif
