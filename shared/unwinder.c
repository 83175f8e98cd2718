/* An unwinder of our own, linked in. That of the process keeps what programs register with it, as compilers of code at
 * run time do, under a lock, and allocates and frees under that: a stack that is read there may wait for ever
 * (docs/decisions/0034-unwinders-and-deep-binding.md). Nobody registers anything with this one, which therefore never
 * takes its lock, nor allocates. */
#include "os/unwinder.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

static const hk_unwinder_t *the; /* const once set */

void hk_unwinder_own(hk_unwinder_t *unwinder) {
    unwinder->walk = _Unwind_Backtrace;
    unwinder->address = _Unwind_GetIPInfo;
    unwinder->stack = _Unwind_GetCFA;
    unwinder->reg = _Unwind_GetGR;
    the = unwinder;
}

/* What it asks of threads. Nothing is to be kept apart: it has no state but what the first stack makes, which is read before
 * all others. So it has these of its own, which the loader need not find at each start. */
int __pthread_key_create(void);
int __pthread_key_create(void) { return 0; } /* its being there says that there are threads */
int pthread_mutex_lock(pthread_mutex_t *lock) {
    (void)lock;
    return 0;
}
int pthread_mutex_unlock(pthread_mutex_t *lock) {
    (void)lock;
    return 0;
}
int pthread_once(pthread_once_t *once, void (*function)(void)) {
    static int done;
    (void)once;
    if (!done) {
        function();
        done = 1;
    }
    return 0;
}

/* Where the C library we are built with has this function, the unwinder refers to it; that we run with may have none. */
#ifdef DLFO_STRUCT_HAS_EH_DBASE
typedef struct {
    uintptr_t address;
    struct dl_find_object *found;
} search_t;

static int look_into(struct dl_phdr_info *info, size_t size, void *argument) {
    search_t *search = argument;
    const ElfW(Phdr) *tables = NULL, *code = NULL;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_GNU_EH_FRAME)
            tables = part;
        else if (part->p_type == PT_LOAD &&
                 search->address - (info->dlpi_addr + part->p_vaddr) < part->p_memsz)
            code = part;
    }
    if (code == NULL || tables == NULL)
        return 0;
    *search->found = (struct dl_find_object){
        .dlfo_map_start = (void *)(info->dlpi_addr + code->p_vaddr),
        .dlfo_map_end = (void *)(info->dlpi_addr + code->p_vaddr + code->p_memsz),
        .dlfo_eh_frame = (void *)(info->dlpi_addr + tables->p_vaddr),
    };
    return 1;
}

int _dl_find_object(void *address, struct dl_find_object *found) {
    search_t search = {(uintptr_t)address, found};
    if (the->object != NULL)
        return the->object(address, found);
    return dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}
#endif
