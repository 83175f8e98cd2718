// A program whose thread-local storage leaves no room on a small stack has a purger all the same.
#include "lean.h"

enum { PEAK = 40 << 20 };

static _Thread_local volatile char large[1 << 20];

int main(void) {
    world_begin(60);
    large[sizeof large - 1] = 1;
    have_company();
    heap_t heap = heap_grow(PEAK, 5);
    await_purger(true);
    heap_free(&heap);
    return 0;
}
