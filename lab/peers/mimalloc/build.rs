fn main() {
    linking::Library::new()
        .keep_c_entries()
        .keep_operators()
        .keep(["reallocarray", "strdup", "strndup", "mi_version"])
        .emit();
}
