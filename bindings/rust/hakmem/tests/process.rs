//! What belongs to the whole process: its malloc, the options, the statistics as text.

use std::ffi::c_void;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use hakmem::{sys, Format};

extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn free(block: *mut c_void);
}

fn number(result: std::io::Result<String>) -> Option<i32> {
    result.unwrap_err().raw_os_error()
}

#[test]
fn the_version_is_that_of_the_crate() {
    assert_eq!(hakmem::version(), env!("CARGO_PKG_VERSION"));
}

#[test]
fn malloc_is_hakmems_only_where_that_is_asked_for() {
    let block = unsafe { malloc(100) };
    let is_ours = unsafe { sys::hak_room(block) } != usize::MAX;
    unsafe { free(block) };
    assert_eq!(is_ours, cfg!(feature = "override"));
    assert_eq!(hakmem::serves_malloc(), cfg!(feature = "override"));
}

#[test]
fn options_are_read_and_changed() {
    let name = "HAKMEM_SECTIONS_SAMPLE";
    let before = hakmem::option(name).unwrap();
    assert_eq!(hakmem::set_option(name, "64").unwrap(), before);
    assert_eq!(hakmem::set_option(name, &before).unwrap(), "64");
    assert_eq!(hakmem::option(name).unwrap(), before);
    assert_eq!(hakmem::option("HAKMEM_PROFILE").unwrap(), "balanced");
}

#[test]
fn what_cannot_be_set_says_why() {
    const EPERM: i32 = 1;
    const ENOENT: i32 = 2;
    const EINVAL: i32 = 22;
    assert_eq!(number(hakmem::option("HAKMEM_NOTHING")), Some(ENOENT));
    let profile = hakmem::set_option("HAKMEM_PROFILE", "secure");
    assert_eq!(number(profile), Some(EPERM));
    let sample = hakmem::set_option("HAKMEM_SECTIONS_SAMPLE", "many");
    assert_eq!(number(sample), Some(EINVAL));
    let broken = hakmem::option("HAKMEM_\0PROFILE").unwrap_err();
    assert_eq!(broken.kind(), ErrorKind::InvalidInput);
}

#[test]
fn statistics_are_written() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("statistics");
    for (format, part) in [
        (Format::Text, "allocated"),
        (Format::Json, "{"),
        (Format::OpenMetrics, "# EOF"),
    ] {
        hakmem::print_stats(File::create(&path).unwrap(), format).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(part), "{format:?}: {text}");
    }
    // Opened for reading only.
    let refused = hakmem::print_stats(File::open(&path).unwrap(), Format::Text);
    assert!(refused.is_err());
}
