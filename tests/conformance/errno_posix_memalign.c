// posix_memalign returns its error and leaves errno alone, also where it refuses.
#include "promise.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    volatile size_t most = SIZE_MAX;
    void *block = NULL;
    errno = ERANGE;
    PROMISE(posix_memalign(&block, 3, 64) == EINVAL, "alignment 3 was not refused with EINVAL");
    PROMISE(errno == ERANGE, "EINVAL: errno became %s", strerrorname_np(errno));
    PROMISE(posix_memalign(&block, 64, most - 100) == ENOMEM, "no ENOMEM for SIZE_MAX - 100");
    PROMISE(errno == ERANGE, "ENOMEM: errno became %s", strerrorname_np(errno));
    return 0;
}
