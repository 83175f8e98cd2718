/* A private copy of the unwinder. The process's one has a lock for what programs register with it,
 * as run-time code generators do, and allocates and frees while it holds it: reading a stack from
 * inside that would deadlock (docs/decisions/0034-unwinders-and-deep-binding.md). Nothing is
 * registered with this one, so it never takes its lock or allocates. */
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

/* The thread functions that it calls. They need not lock: its only state is made by the first
 * stack, which is read before all others. Defined here, so that the loader need not look them up at
 * each start. */
int __pthread_key_create(void);
int __pthread_key_create(void) { return 0; } /* its existence means that there are threads */
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

/* The unwinder calls this function if the C library at build time has it; that at run time may
 * not. */
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
