//! Builds hakmem from its C sources, with the flags of its own CMakeLists.txt.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whose calls the compiler may not drop, merge or invent: these functions are what is built here.
const NOT_BUILT_IN: [&str; 7] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
];

fn main() {
    let of = |what: &str| env::var(format!("CARGO_CFG_{what}")).unwrap_or_default();
    if of("TARGET_OS") != "linux" || of("TARGET_ENV") != "gnu" {
        panic!("hakmem is for Linux with glibc");
    }
    let root = sources();
    let whole_process = env::var_os("CARGO_FEATURE_OVERRIDE").is_some();

    let mut c = compiler(&root, whole_process);
    // As empty, because a file that wants to be compiled alone defines it so, too.
    c.define("_GNU_SOURCE", "").flag("-std=gnu11");
    let mut objects = c.files(files(&root, "c")).compile_intermediates();
    if whole_process {
        let mut cxx = compiler(&root, whole_process);
        cxx.cpp(true).flag("-std=gnu++17").flag("-fno-rtti");
        objects.extend(cxx.files(files(&root, "cc")).compile_intermediates());
    }

    // One object, so that a program takes all of it or nothing: a part would leave out what runs
    // when the process starts, or half of the malloc family.
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    let whole = Path::new(&out).join("hakmem.o");
    let mut linker = c.get_compiler().to_command();
    linker.args(["-r", "-nostdlib", "-o"]).arg(&whole);
    let status = linker.args(&objects).status();
    let joined = status.expect("the C compiler starts").success();
    assert!(joined, "the objects could not be joined into one");
    if whole_process {
        weaken_operators(&c, &whole);
    }
    cc::Build::new().object(&whole).compile("hakmem");

    println!("cargo:include={}", root.join("include").display());
    println!("cargo:rerun-if-changed=build.rs");
    for folder in ["src", "include"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }
}

/// A program may have any of C++'s operators of its own, which would be there twice. Where the compiler has no objcopy it may not.
fn weaken_operators(c: &cc::Build, object: &Path) {
    let mut ask = c.get_compiler().to_command();
    let asked = ask.arg("-print-prog-name=objcopy").output();
    let said = asked.map_or(String::new(), |o| String::from_utf8_lossy(&o.stdout).into());
    let objcopy = Some(said.trim())
        .filter(|s| !s.is_empty())
        .unwrap_or("objcopy");
    let status = Command::new(objcopy)
        .args(["--wildcard", "--weaken-symbol=_Zn*", "--weaken-symbol=_Zd*"])
        .arg(object)
        .status();
    if !status.is_ok_and(|s| s.success()) {
        println!("cargo:warning=without objcopy no operator new or delete can be replaced");
    }
}

/// The folder that has src/ and include/: vendor/ in a published crate, else the checkout.
fn sources() -> PathBuf {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let (vendored, checkout) = (here.join("vendor"), here.join("../../.."));
    let in_checkout = checkout.join("src/base/base.h").is_file();
    if vendored.is_dir() {
        if in_checkout {
            println!("cargo:warning=hakmem is built from vendor/, not from the checkout around it");
        }
        return vendored;
    }
    if !in_checkout {
        panic!("no C sources: run tools/vendor-crate in a checkout of hakmem");
    }
    checkout.canonicalize().expect("the checkout")
}

/// The files src/BOX/*.`extension`, in the same order each time.
fn files(root: &Path, extension: &str) -> Vec<PathBuf> {
    let inside = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("a folder of the C sources");
        entries
            .map(|entry| entry.expect("a file of the C sources").path())
            .collect::<Vec<_>>()
    };
    let boxes = inside(&root.join("src"));
    let mut found: Vec<PathBuf> = boxes.iter().flat_map(|each| inside(each)).collect();
    found.retain(|path| path.extension() == Some(OsStr::new(extension)));
    found.sort();
    found
}

/// What C and C++ have in common. It is always the product that is built, for a debug build too.
fn compiler(root: &Path, whole_process: bool) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .include(root.join("src"))
        .include(root.join("include"))
        .pic(true)
        .opt_level(3)
        .force_frame_pointer(false)
        .warnings(false)
        .flag("-fvisibility=hidden")
        .flag("-ftls-model=initial-exec")
        .flag("-fno-plt")
        // bad_alloc passes through our frames, the C ones included.
        .flag("-fexceptions");
    for name in NOT_BUILT_IN {
        build.flag(format!("-fno-builtin-{name}").as_str());
    }
    if !whole_process {
        build.define("HK_NO_OVERRIDE", "1");
    }
    build
}
