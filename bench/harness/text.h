/*
 * Text put together in a fixed buffer and written with write(2): a benchmark's own output must not
 * go through the allocator it measures.
 */
#ifndef HB_TEXT_H
#define HB_TEXT_H

#include <stddef.h>

typedef struct {
    size_t length;
    char bytes[8192];
} hb_text_t;

/* Appends; text that does not fit ends the program, for half a result is worse than none. */
void hb_text_add(hb_text_t *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends a JSON string in quotes, or null. */
void hb_text_add_json(hb_text_t *text, const char *string);

void hb_text_write(const hb_text_t *text, int fd);

/* Prints one formatted line (or several) to a file descriptor. */
void hb_print(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Says on stderr why the benchmark cannot go on, and ends the process with status 1. */
_Noreturn void hb_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
