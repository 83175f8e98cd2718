fn main() {
    linking::Library::new()
        .alias_c_entries("sn_")
        .add_operators("sn_malloc", "sn_memalign", "sn_free")
        .emit();
}
