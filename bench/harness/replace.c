#include "replace.h"

#include <string.h>

#include "blocks.h"

static const size_t os_page = 4096;

static void touch_pages(unsigned char *bytes, size_t size, touch_t touch) {
    if (touch == TOUCH_NONE || hb_smoke) {
        return; /* under --smoke the whole block has been filled, and must stay so */
    }
    if (touch == TOUCH_ALL) {
        memset(bytes, 1, size);
        return;
    }
    for (size_t at = 0; at < size; at += os_page) {
        *(volatile unsigned char *)(bytes + at) = 1;
        if (touch == TOUCH_ENDS) {
            const size_t last = at + os_page <= size ? at + os_page - 1 : size - 1;
            *(volatile unsigned char *)(bytes + last) = 1;
        }
    }
}

static hb_block_t new_block(uint32_t *x, size_t min, size_t max, touch_t touch, uint32_t tag) {
    const size_t size = hb_between(hb_next(x), min, max);
    hb_block_t block = {hb_block_new(size, tag), size};
    touch_pages(block.bytes, size, touch);
    return block;
}

hb_usage_t hb_replace_run(uint64_t ops, uint64_t slots, size_t min, size_t max, touch_t touch,
                          uint64_t seed) {
    if (min > max) {
        hb_die("the smallest size, %zu, is above the largest, %zu", min, max);
    }
    hb_block_t *block = hb_map(slots * sizeof *block);
    uint32_t x = hb_seed(seed, 0);
    for (uint32_t i = 0; i < slots; i++) {
        block[i] = new_block(&x, min, max, touch, i);
    }
    const hb_usage_t begin = hb_usage_now();
    for (uint64_t n = 0; n < ops; n++) {
        const uint32_t i = (uint32_t)hb_between(hb_next(&x), 0, slots - 1);
        hb_block_free(block[i].bytes, block[i].size, i);
        block[i] = new_block(&x, min, max, touch, i);
    }
    const hb_usage_t end = hb_usage_now();
    for (uint32_t i = 0; i < slots; i++) {
        hb_block_free(block[i].bytes, block[i].size, i);
    }
    return hb_usage_between(&begin, &end);
}
