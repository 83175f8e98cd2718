//! For the peers' build scripts: turns a statically linked allocator into a library that can be
//! preloaded. rustc hides C symbols in a cdylib, so each one is kept, named and exported here,
//! by the linker alone: none that the allocator has costs an extra call. What it lacks is added
//! in C, and does.

use std::{collections::BTreeSet, env, fs, path::Path};

/// The entry points that must all come from one allocator: a block from one of them may be
/// handed to any other. `reallocarray` may stay the C library's, which calls `realloc`.
const C_ENTRIES: [&str; 10] = [
    "aligned_alloc",
    "calloc",
    "free",
    "malloc",
    "malloc_usable_size",
    "memalign",
    "posix_memalign",
    "pvalloc",
    "realloc",
    "valloc",
];

/// Every `operator new` and `operator delete` of the Itanium C++ ABI, without `_Z`.
const NEWS: [&str; 8] = [
    "nwm",
    "nam",
    "nwmRKSt9nothrow_t",
    "namRKSt9nothrow_t",
    "nwmSt11align_val_t",
    "namSt11align_val_t",
    "nwmSt11align_val_tRKSt9nothrow_t",
    "namSt11align_val_tRKSt9nothrow_t",
];
const DELETES: [&str; 12] = [
    "dlPv",
    "daPv",
    "dlPvm",
    "daPvm",
    "dlPvSt11align_val_t",
    "daPvSt11align_val_t",
    "dlPvmSt11align_val_t",
    "daPvmSt11align_val_t",
    "dlPvRKSt9nothrow_t",
    "daPvRKSt9nothrow_t",
    "dlPvSt11align_val_tRKSt9nothrow_t",
    "daPvSt11align_val_tRKSt9nothrow_t",
];

/// What the linker is asked to do for one peer; `emit` says it to cargo.
#[derive(Default)]
pub struct Library {
    required: BTreeSet<String>,
    exported: BTreeSet<String>,
    aliases: Vec<(String, String)>,
}

impl Library {
    pub fn new() -> Self {
        println!("cargo:rerun-if-changed=build.rs");
        Self::default()
    }

    /// The allocator defines these under their public names.
    pub fn keep<S: AsRef<str>>(mut self, symbols: impl IntoIterator<Item = S>) -> Self {
        for symbol in symbols {
            self.required.insert(symbol.as_ref().to_owned());
            self.exported.insert(symbol.as_ref().to_owned());
        }
        self
    }

    /// `public` becomes another name of the allocator's own `internal`.
    pub fn alias(mut self, public: &str, internal: &str) -> Self {
        self.required.insert(internal.to_owned());
        self.exported.insert(public.to_owned());
        self.aliases.push((public.to_owned(), internal.to_owned()));
        self
    }

    /// The allocator defines the C entry points under their public names.
    pub fn keep_c_entries(self) -> Self {
        self.keep(C_ENTRIES)
    }

    /// The allocator defines the C entry points as `prefix` + name.
    pub fn alias_c_entries(self, prefix: &str) -> Self {
        C_ENTRIES.iter().fold(self, |library, entry| {
            library.alias(entry, &format!("{prefix}{entry}"))
        })
    }

    /// The allocator has the C++ operators.
    pub fn keep_operators(self) -> Self {
        self.keep(NEWS.iter().chain(&DELETES).map(|name| format!("_Z{name}")))
    }

    /// The allocator has no C++ operators: they are put on top of these functions.
    /// The size and alignment that a delete is told are optional knowledge, so it is `free`.
    pub fn add_operators(self, malloc: &str, memalign: &str, free: &str) -> Self {
        compile(
            "operator_new",
            &[("HK_MALLOC", malloc), ("HK_MEMALIGN", memalign)],
        );
        let library = self.keep(NEWS.map(|name| format!("_Z{name}")));
        DELETES.iter().fold(library, |library, name| {
            library.alias(&format!("_Z{name}"), free)
        })
    }

    /// The allocator has no `valloc` and `pvalloc`: they are put on top of its memalign.
    pub fn add_page_entries(self, memalign: &str) -> Self {
        compile("page_entries", &[("HK_MEMALIGN", memalign)]);
        self.keep(["valloc", "pvalloc"])
    }

    /// Prints the link arguments of the calling build script's cdylib.
    pub fn emit(self) {
        let script =
            Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("exports.map");
        let exported = Vec::from_iter(self.exported).join("; ");
        fs::write(&script, format!("{{ global: {exported}; local: *; }};\n"))
            .expect("the version script cannot be written");

        for symbol in &self.required {
            link_argument(&format!("-u,{symbol}"));
        }
        for (public, internal) in &self.aliases {
            link_argument(&format!("--defsym={public}={internal}"));
        }
        link_argument(&format!("--version-script={}", script.display()));
        // Calls inside the library stay inside it.
        link_argument("-Bsymbolic-functions");
        // Without Rust's standard library nothing else names the C library, which must be
        // initialised first.
        link_argument("-lc");
        // A symbol that nobody defines must be an error here, not in the preloaded process.
        link_argument("-z,defs");
    }
}

fn link_argument(argument: &str) {
    println!("cargo:rustc-cdylib-link-arg=-Wl,{argument}");
}

/// Compiles one of the C files beside this crate's manifest into the peer.
fn compile(name: &str, macros: &[(&str, &str)]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("{name}.c"));
    println!("cargo:rerun-if-changed={}", source.display());
    let mut build = cc::Build::new();
    for (macro_name, value) in macros {
        build.define(macro_name, *value);
    }
    build
        .file(source)
        // Exceptions pass through operator new; malloc must not be taken for the C library's.
        .flag("-fexceptions")
        .flag("-fno-builtin")
        .compile(name);
}
