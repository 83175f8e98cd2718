/// Public names and tcmalloc's own, which all start with `TCMallocInternal`.
const ENTRIES: [(&str, &str); 32] = [
    ("malloc", "Malloc"),
    ("free", "Free"),
    ("calloc", "Calloc"),
    ("realloc", "Realloc"),
    ("reallocarray", "ReallocArray"),
    ("memalign", "Memalign"),
    ("aligned_alloc", "AlignedAlloc"),
    ("posix_memalign", "PosixMemalign"),
    ("valloc", "Valloc"),
    ("pvalloc", "Pvalloc"),
    ("malloc_usable_size", "MallocSize"),
    ("_Znwm", "New"),
    ("_Znam", "NewArray"),
    ("_ZnwmRKSt9nothrow_t", "NewNothrow"),
    ("_ZnamRKSt9nothrow_t", "NewArrayNothrow"),
    ("_ZnwmSt11align_val_t", "NewAligned"),
    ("_ZnamSt11align_val_t", "NewArrayAligned"),
    ("_ZnwmSt11align_val_tRKSt9nothrow_t", "NewAlignedNothrow"),
    (
        "_ZnamSt11align_val_tRKSt9nothrow_t",
        "NewArrayAlignedNothrow",
    ),
    ("_ZdlPv", "Delete"),
    ("_ZdaPv", "DeleteArray"),
    ("_ZdlPvm", "DeleteSized"),
    ("_ZdaPvm", "DeleteArraySized"),
    ("_ZdlPvSt11align_val_t", "DeleteAligned"),
    ("_ZdaPvSt11align_val_t", "DeleteArrayAligned"),
    ("_ZdlPvmSt11align_val_t", "DeleteSizedAligned"),
    ("_ZdaPvmSt11align_val_t", "DeleteArraySizedAligned"),
    ("_ZdlPvRKSt9nothrow_t", "DeleteNothrow"),
    ("_ZdaPvRKSt9nothrow_t", "DeleteArrayNothrow"),
    (
        "_ZdlPvSt11align_val_tRKSt9nothrow_t",
        "DeleteAlignedNothrow",
    ),
    (
        "_ZdaPvSt11align_val_tRKSt9nothrow_t",
        "DeleteArrayAlignedNothrow",
    ),
    ("sdallocx", "Sdallocx"),
];

fn main() {
    ENTRIES
        .iter()
        .fold(linking::Library::new(), |library, (public, internal)| {
            library.alias(public, &format!("TCMallocInternal{internal}"))
        })
        // What switches the per-CPU caches on is a constructor in an object that nothing refers
        // to; whether it did can be asked from outside.
        .keep([
            "TCMalloc_Internal_ForceCpuCacheActivation",
            "MallocExtension_Internal_GetPerCpuCachesActive",
        ])
        .emit();
}
