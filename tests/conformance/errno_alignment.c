// posix_memalign refuses an alignment that is no power of two of pointers with EINVAL.
#include "promise.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    const size_t wrong[] = {0, 1, 2, 4, 12, 24, 100, 4095, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        void *untouched = &fast;
        int error = posix_memalign(&untouched, wrong[i], 64);
        PROMISE(error == EINVAL, "alignment %zu: returned %d, not EINVAL", wrong[i], error);
        PROMISE(untouched == &fast, "alignment %zu: the pointer was changed", wrong[i]);
    }
    return 0;
}
