/* hk_os_grants_*(): ENOMEM and EAGAIN mean that the system would not grant the memory; any other error
 * says nothing about that and must count as granted. errno must not change. */
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>

#include "check.h"
#include "os/os.h"

static int refusal; /* errno of all PROT_NONE mappings; 0: none is refused */

void *mmap(void *p, size_t n, int protection, int flags, int fd, off_t offset) {
    if (refusal != 0 && protection == PROT_NONE) {
        errno = refusal;
        return MAP_FAILED;
    }
    void *(*real)(void *, size_t, int, int, int, off_t);
    *(void **)&real = dlsym(RTLD_NEXT, "mmap");
    return real(p, n, protection, flags, fd, offset);
}

static bool granted(int why_not) {
    refusal = why_not;
    errno = ERANGE;
    const bool all = hk_os_grants_addresses(HK_MIB) && hk_os_grants_commitment(HK_MIB) &&
                     hk_os_grants_memory(HK_MIB);
    CHECK_EQ(errno, ERANGE);
    refusal = 0;
    return all;
}

int main(void) {
    CHECK(granted(0) && !granted(ENOMEM) && !granted(EAGAIN));
    CHECK(granted(ENFILE) && granted(EPERM)); /* out of files for shared memory; a sandbox */
    return 0;
}
