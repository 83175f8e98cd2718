/// Public names and rpmalloc's own.
const ENTRIES: [(&str, &str); 8] = [
    ("malloc", "rpmalloc"),
    ("free", "rpfree"),
    ("calloc", "rpcalloc"),
    ("realloc", "rprealloc"),
    ("memalign", "rpmemalign"),
    ("aligned_alloc", "rpaligned_alloc"),
    ("posix_memalign", "rpposix_memalign"),
    ("malloc_usable_size", "rpmalloc_usable_size"),
];

fn main() {
    ENTRIES
        .iter()
        .fold(linking::Library::new(), |library, (public, internal)| {
            library.alias(public, internal)
        })
        .add_page_entries("rpmemalign")
        .add_operators("rpmalloc", "rpmemalign", "rpfree")
        // Gives each new thread its heap and takes it back.
        .keep(["pthread_create"])
        .emit();
}
