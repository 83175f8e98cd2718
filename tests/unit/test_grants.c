/* hk_os_grants_*(): ENOMEM and EAGAIN mean that the system would not grant the memory; any other error
 * says nothing about that and must count as granted. errno must not change. */
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>

#include "check.h"
#include "os/os.h"

static int refusal;    /* errno of all PROT_NONE mappings; 0: none is refused */
static unsigned asked; /* PROT_NONE mappings asked for */

void *mmap(void *p, size_t n, int protection, int flags, int fd, off_t offset) {
    asked += protection == PROT_NONE;
    if (refusal != 0 && protection == PROT_NONE) {
        errno = refusal;
        return MAP_FAILED;
    }
    void *(*real)(void *, size_t, int, int, int, off_t);
    *(void **)&real = dlsym(RTLD_NEXT, "mmap");
    return real(p, n, protection, flags, fd, offset);
}

/* Each of the three must ask the system, and say `granted`. */
static void check_each(int why_not, bool granted) {
    static bool (*const grants[])(size_t) = {hk_os_grants_addresses, hk_os_grants_commitment,
                                             hk_os_grants_memory};
    refusal = why_not;
    for (unsigned i = 0; i < sizeof grants / sizeof *grants; i++) {
        asked = 0;
        errno = ERANGE;
        CHECK_EQ(grants[i](HK_MIB), granted);
        CHECK(errno == ERANGE && asked == 1);
    }
    refusal = 0;
}

int main(void) {
    check_each(0, true);
    check_each(ENOMEM, false);
    check_each(EAGAIN, false);
    check_each(ENFILE, true); /* out of files for shared memory */
    check_each(EPERM, true);  /* a sandbox */
    return 0;
}
