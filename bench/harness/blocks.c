#include "blocks.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static unsigned char pattern_of(uint32_t tag) { return (unsigned char)(tag ^ (tag >> 8)); }

void hb_fill(unsigned char *bytes, size_t size, uint32_t tag) {
    memset(bytes, pattern_of(tag), size);
}

void hb_verify(const unsigned char *bytes, size_t size, uint32_t tag) {
    const unsigned char pattern = pattern_of(tag);
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != pattern) {
            hb_die("block %p of %zu bytes: byte %zu is 0x%02x instead of 0x%02x",
                   (const void *)bytes, size, i, bytes[i], pattern);
        }
    }
}

_Noreturn void hb_out_of_memory(size_t size) { hb_die("no memory for %zu bytes", size); }

static void *map(size_t bytes, int flags) {
    void *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (at == MAP_FAILED) {
        hb_die("mmap of %zu bytes: %s", bytes, strerror(errno));
    }
    return at;
}

void *hb_map(size_t bytes) { return map(bytes, MAP_POPULATE); }

void *hb_reserve(size_t bytes) { return map(bytes, MAP_NORESERVE); }
