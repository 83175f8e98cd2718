fn main() {
    linking::Library::new()
        .keep_c_entries()
        .keep(["mallctl"])
        .add_operators("malloc", "memalign", "free")
        .emit();
}
