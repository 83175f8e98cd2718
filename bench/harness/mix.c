#include "mix.h"

#include <malloc.h>
#include <stdlib.h>

#include "blocks.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The value must exist in a register here, whether or not this mode has a use for it. */
#define KEEP(value) __asm__ volatile("" : : "r"(value))

static const uint32_t size_base = 16;
static const uint32_t size_mask = 0x3FF;

ALWAYS_INLINE uint32_t clamp(uint32_t size, uint32_t min, uint32_t max) {
    size = size < min ? min : size;
    return size > max ? max : size;
}

ALWAYS_INLINE unsigned char *take_malloc(uint32_t size) {
    unsigned char *bytes = malloc(size);
    if (__builtin_expect(bytes == NULL, 0)) {
        hb_die("no memory"); /* naming the size would keep it alive across the call */
    }
    return bytes;
}

static unsigned char *take_check(mix_t *mix, uint32_t slot, uint32_t size) {
    unsigned char *bytes = take_malloc(size);
    mix->mallocs++;
    mix->bytes += size;
    mix->notes[slot] = (mix_note_t){.size = size, .random = mix->x};
    hb_fill(bytes, size, slot);
    return bytes;
}

/* The loop writes the low byte of its random number into the first byte. */
static void give_check(mix_t *mix, uint32_t slot, unsigned char *bytes) {
    const mix_note_t note = mix->notes[slot];
    if (bytes[0] != (unsigned char)note.random) {
        hb_die("slot %u: the first byte of its block of %u bytes has changed", slot, note.size);
    }
    hb_verify(bytes + 1, note.size - 1, slot);
    free(bytes);
}

ALWAYS_INLINE unsigned char *take(mix_t *mix, mix_mode_t mode, unsigned char *lines, uint32_t slot,
                                  uint32_t size) {
    switch (mode) {
    case MIX_FAST:
        return *--mix->pools.top[(size - mix->pools.smallest) >> 4];
    case MIX_NULL:
        return lines + (size_t)slot * 64;
    case MIX_CHECK:
        return take_check(mix, slot, size);
    case MIX_MALLOC:
    default:
        return take_malloc(size);
    }
}

ALWAYS_INLINE void give(mix_t *mix, mix_mode_t mode, uint32_t slot, unsigned char *bytes) {
    switch (mode) {
    case MIX_FAST:
        *mix->pools.top[(size_t)(bytes - mix->pools.base) >> mix->pools.shift]++ = bytes;
        break;
    case MIX_NULL:
        break;
    case MIX_CHECK:
        give_check(mix, slot, bytes);
        break;
    case MIX_MALLOC:
    default:
        free(bytes);
        break;
    }
}

/* `mode` is a constant in each copy: the modes differ in take() and give() and in nothing else. */
ALWAYS_INLINE void loop(mix_t *mix, uint64_t ops, mix_mode_t mode) {
    void **const slots = mix->slots;
    unsigned char *const lines = mix->lines;
    const uint32_t ws = mix->ws;
    const uint32_t min = mix->min;
    const uint32_t max = mix->max;
    uint32_t x = mix->x;
    for (; ops != 0; ops--) {
        const uint32_t r = hb_next(&x);
        const uint32_t slot = r % ws;
        unsigned char *bytes = slots[slot];
        if (bytes != NULL) {
            give(mix, mode, slot, bytes);
            slots[slot] = NULL;
        } else {
            const uint32_t size = clamp(size_base + (r & size_mask), min, max);
            KEEP(size);
            if (mode == MIX_CHECK) {
                mix->x = r;
            }
            bytes = take(mix, mode, lines, slot, size);
            *(volatile unsigned char *)bytes = (unsigned char)r;
            slots[slot] = bytes;
        }
    }
    mix->x = x;
}

#define COPY(name, mode)                                                                           \
    static __attribute__((noinline)) void name(mix_t *mix, uint64_t ops) { loop(mix, ops, mode); }
COPY(loop_malloc, MIX_MALLOC)
COPY(loop_fast, MIX_FAST)
COPY(loop_null, MIX_NULL)
COPY(loop_check, MIX_CHECK)
#undef COPY

void mix_run(mix_t *mix, uint64_t ops) {
    switch (mix->mode) {
    case MIX_MALLOC:
        loop_malloc(mix, ops);
        break;
    case MIX_FAST:
        loop_fast(mix, ops);
        break;
    case MIX_NULL:
        loop_null(mix, ops);
        break;
    case MIX_CHECK:
        loop_check(mix, ops);
        break;
    }
}

/* Bytes of a block of class c: its largest size, rounded up to 16. */
static size_t class_block(const mix_pools_t *pools, uint32_t c) {
    return ((size_t)pools->smallest + 16 * c + 15 + 15) / 16 * 16;
}

/*
 * Half of the slots are occupied on average, so a class that gets the share w of the sizes needs
 * m = ws * w / 2 blocks on average. More than 2m + 256 at once will not be seen: the slots are
 * independent, and the chance (Chernoff) is below e^-170. The NULL under each stack makes even that
 * end in a fault and not in a wrong figure.
 */
static void fill_pools(mix_t *mix) {
    /* Odd numbers of cache lines keep the classes' hot ends out of each other's cache sets. */
    const size_t colour = 17 * 64;
    mix_pools_t *pools = &mix->pools;
    uint32_t weight[MIX_CLASSES] = {0};
    size_t room[MIX_CLASSES];
    size_t stacks = 0, largest = 0;
    pools->smallest = clamp(size_base, mix->min, mix->max);
    for (uint32_t v = 0; v <= size_mask; v++) {
        weight[(clamp(size_base + v, mix->min, mix->max) - pools->smallest) >> 4]++;
    }
    for (uint32_t c = 0; c < MIX_CLASSES; c++) {
        room[c] = weight[c] == 0 ? 0 : (size_t)mix->ws * weight[c] / (size_mask + 1) + 256;
        const size_t bytes = room[c] * class_block(pools, c);
        largest = bytes > largest ? bytes : largest;
        stacks += (room[c] + 1) * sizeof(void *) + colour;
    }
    largest += MIX_CLASSES * colour;
    while (((size_t)1 << pools->shift) < largest) {
        pools->shift++;
    }
    pools->base = hb_reserve((size_t)MIX_CLASSES << pools->shift);
    unsigned char *stack = hb_map(stacks);
    for (uint32_t c = 0; c < MIX_CLASSES; c++) {
        const size_t block = class_block(pools, c);
        unsigned char *first = pools->base + ((size_t)c << pools->shift) + c * colour;
        void **at = (void **)(void *)stack;
        *at++ = NULL;
        for (size_t i = room[c]; i-- > 0;) {
            unsigned char *bytes = first + i * block;
            bytes[0] = 1; /* the page is there before the clock starts */
            *at++ = bytes;
        }
        pools->top[c] = at;
        stack += (room[c] + 1) * sizeof(void *) + colour;
    }
}

void mix_open(mix_t *mix, mix_mode_t mode, uint64_t ws, uint64_t min, uint64_t max) {
    if (min > max) {
        hb_die("the smallest size, %ju, is above the largest, %ju", (uintmax_t)min, (uintmax_t)max);
    }
    *mix = (mix_t){.mode = mode, .ws = (uint32_t)ws, .min = (uint32_t)min, .max = (uint32_t)max};
    mix->slots = hb_map(ws * sizeof *mix->slots);
    if (mode == MIX_FAST) {
        fill_pools(mix);
    } else if (mode == MIX_NULL) {
        mix->lines = hb_map(ws * 64);
    } else if (mode == MIX_CHECK) {
        mix->notes = hb_map(ws * sizeof *mix->notes);
    }
}

void mix_seed(mix_t *mix, uint32_t seed) {
    mix->x = seed != 0 ? seed : 1;
    mix->mallocs = 0;
    mix->bytes = 0;
}

uint32_t mix_other_seed(uint32_t seed) { return seed + UINT32_C(0x9E3779B9); }

uint64_t mix_live_bytes(const mix_t *mix) {
    if (mix->mode == MIX_FAST || mix->mode == MIX_NULL) {
        return 0;
    }
    /* Which slots are occupied depends on nothing but chance, so every n-th is a fair sample. */
    const uint32_t step = (mix->ws - 1) / MIX_COUNTED + 1;
    uint64_t bytes = 0, seen = 0;
    for (uint32_t slot = 0; slot < mix->ws; slot += step) {
        bytes += mix->slots[slot] != NULL ? malloc_usable_size(mix->slots[slot]) : 0;
        seen++;
    }
    return (uint64_t)((double)bytes * mix->ws / (double)seen);
}

void mix_drain(mix_t *mix) {
    for (uint32_t slot = 0; slot < mix->ws; slot++) {
        if (mix->slots[slot] != NULL) {
            give(mix, mix->mode, slot, mix->slots[slot]);
            mix->slots[slot] = NULL;
        }
    }
}
