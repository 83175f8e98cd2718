#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void text_add_list(hb_text_t *text, const char *format, va_list list) {
    const size_t room = sizeof text->bytes - text->length;
    const int wanted = vsnprintf(text->bytes + text->length, room, format, list);
    if (wanted < 0 || (size_t)wanted >= room) {
        static const char message[] = "bench: text longer than its buffer\n";
        (void)!write(STDERR_FILENO, message, sizeof message - 1);
        _exit(1);
    }
    text->length += (size_t)wanted;
}

void hb_text_add(hb_text_t *text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    text_add_list(text, format, list);
    va_end(list);
}

void hb_text_add_json(hb_text_t *text, const char *string) {
    if (string == NULL) {
        hb_text_add(text, "null");
        return;
    }
    hb_text_add(text, "\"");
    for (const char *s = string; *s != '\0'; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            hb_text_add(text, "\\%c", c);
        } else if (c < 0x20) {
            hb_text_add(text, "\\u%04x", c);
        } else {
            hb_text_add(text, "%c", c);
        }
    }
    hb_text_add(text, "\"");
}

void hb_text_write(const hb_text_t *text, int fd) {
    for (size_t done = 0; done < text->length;) {
        const ssize_t wrote = write(fd, text->bytes + done, text->length - done);
        if (wrote > 0) {
            done += (size_t)wrote;
        } else if (errno != EINTR) {
            _exit(1); /* nobody is left to tell */
        }
    }
}

void hb_print(int fd, const char *format, ...) {
    hb_text_t text = {0};
    va_list list;
    va_start(list, format);
    text_add_list(&text, format, list);
    va_end(list);
    hb_text_write(&text, fd);
}

_Noreturn void hb_die(const char *format, ...) {
    hb_text_t text = {0};
    va_list list;
    va_start(list, format);
    hb_text_add(&text, "bench: error: ");
    text_add_list(&text, format, list);
    va_end(list);
    hb_text_add(&text, "\n");
    hb_text_write(&text, STDERR_FILENO);
    _exit(1);
}
