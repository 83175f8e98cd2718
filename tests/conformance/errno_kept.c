// What succeeds leaves errno alone, and so does free.
#include "promise.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    const size_t sizes[] = {1, 100, 5000, 100000, 3 * MIB, 40 * MIB};
    for (long round = 0; round < scaled(2000, 50); round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            void *aligned = NULL;
            errno = ERANGE;
            int error = posix_memalign(&aligned, 64, sizes[i]);
            PROMISE(error == 0 && errno == ERANGE, "posix_memalign(%zu) set errno to %s", sizes[i],
                    strerrorname_np(errno));
            free(aligned);
            PROMISE(errno == ERANGE, "free of %zu bytes set errno to %s", sizes[i],
                    strerrorname_np(errno));
        }
    free(NULL);
    PROMISE(errno == ERANGE, "free(NULL) set errno to %s", strerrorname_np(errno));
    return 0;
}
