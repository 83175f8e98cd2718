/* A fuzz target: LLVMFuzzerTestOneInput() in a file of its own, linked either to libFuzzer or to replay.c.
 * Nothing here allocates: the heap under test is the process's own. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Does what one input says, and checks it. Returns 0; calls abort() if a check fails. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(c, ...)                                                                         \
    do {                                                                                           \
        if (!(c)) {                                                                                \
            dprintf(STDERR_FILENO, "%s:%d: failed: %s: ", __FILE__, __LINE__, #c);                 \
            dprintf(STDERR_FILENO, __VA_ARGS__);                                                   \
            dprintf(STDERR_FILENO, "\n");                                                          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The rest of an input; beyond its end all numbers read as 0. */
typedef struct {
    const uint8_t *at, *end;
} fuzz_input_t;

static inline bool fuzz_is_used_up(const fuzz_input_t *in) { return in->at == in->end; }

static inline unsigned fuzz_byte(fuzz_input_t *in) { return fuzz_is_used_up(in) ? 0 : *in->at++; }

static inline unsigned fuzz_below(fuzz_input_t *in, unsigned n) {
    const unsigned high = n > 256 ? fuzz_byte(in) : 0;
    return (high << 8 | fuzz_byte(in)) % n;
}

/* The next bytes as an input of their own. */
static inline fuzz_input_t fuzz_part(fuzz_input_t *in, size_t bytes) {
    const size_t left = (size_t)(in->end - in->at);
    fuzz_input_t part = {in->at, in->at + (bytes < left ? bytes : left)};
    in->at = part.end;
    return part;
}

#endif
