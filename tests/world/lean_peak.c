// lean_peak: memory comes back by itself after a peak of which 95 % was freed at random; what stays
// keeps its contents, and what came back is used again.
#include "lean.h"

enum { PEAK = 96 << 20, PERCENT_KEPT = 40 };

int main(void) {
    world_begin(100);
    size_t before = kept_bytes();
    heap_t heap = heap_grow(PEAK, 1);
    size_t grown = kept_bytes() - before;
    CHECK(grown > (size_t)PEAK * 9 / 10, "the peak is %zu MiB", grown / MIB);
    heap_thin(&heap, 5, 7);
    await_kept(before + grown * PERCENT_KEPT / 100, "after the peak");
    heap_check(&heap);
    heap_t again = heap_grow((size_t)PEAK * 9 / 10, 3);
    heap_check(&heap);
    heap_check(&again);
    heap_free(&heap);
    heap_free(&again);
    await_kept(before + 16 * MIB, "all is freed");
    return 0;
}
