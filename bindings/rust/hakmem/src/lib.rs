#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::os::raw::c_int;
use std::os::unix::io::{AsFd, AsRawFd};
use std::ptr;

pub use hakmem_sys as sys;
pub use hakmem_sys::hak_stats_band_t as Band;
pub use hakmem_sys::hak_stats_t as Stats;

/// The allocator: `#[global_allocator] static GLOBAL: Hakmem = Hakmem;`, or called directly.
///
/// Blocks may be freed by any thread. Out of memory is null. A double or invalid free ends the
/// process with one line on standard error, where it is found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hakmem;

/// Whether a block of `size` bytes is aligned to `align` anyway: those of more than 8 bytes lie at
/// multiples of 16, the others of 8.
fn is_aligned_anyway(align: usize, size: usize) -> bool {
    align <= 8 || (align == 16 && size > 8)
}

// SAFETY: blocks are as large and as aligned as asked for, apart from each other, and stay where
// they are until freed; nothing here unwinds.
unsafe impl GlobalAlloc for Hakmem {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_aligned_anyway(layout.align(), layout.size()) {
            sys::hak_malloc(layout.size()).cast()
        } else {
            sys::hak_aligned_alloc(layout.align(), layout.size()).cast()
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        sys::hak_free(block.cast());
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // Of a large block hak_calloc writes only what may be dirty.
        if is_aligned_anyway(layout.align(), layout.size()) {
            return sys::hak_calloc(1, layout.size()).cast();
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            ptr::write_bytes(block, 0, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // A block that hak_realloc moves has lost its alignment.
        if is_aligned_anyway(layout.align(), size) {
            return sys::hak_realloc(block.cast(), size).cast();
        }
        let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !moved.is_null() {
            ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
            self.dealloc(block, layout);
        }
        moved
    }
}

/// The version of the C library, "MAJOR.MINOR.PATCH".
pub fn version() -> &'static str {
    // SAFETY: a constant text with its NUL.
    let text = unsafe { CStr::from_ptr(sys::hak_version()) };
    text.to_str().expect("digits and dots")
}

/// Whether the process's `malloc` is hakmem's: with the feature `override` it is. The program's
/// global allocator may be hakmem where this is false.
pub fn serves_malloc() -> bool {
    // SAFETY: may be called by any thread at any time.
    unsafe { sys::hak_is_serving() == 1 }
}

/// Gives everything that is free back to the system, but for what the magazines of other running
/// threads hold; says whether anything went.
pub fn trim() -> bool {
    // SAFETY: may be called by any thread at any time.
    unsafe { sys::hak_trim() == 1 }
}

/// Statistics of the process: bytes, and counts since it began. Each figure is exact where no other
/// thread allocates or frees meanwhile. Allocates nothing, but asks the system about all memory.
///
/// # Errors
///
/// EBUSY in a signal handler that interrupted the allocator.
pub fn stats() -> io::Result<Stats> {
    let mut stats = Stats::default();
    stats.size = mem::size_of::<Stats>() as u32;
    // SAFETY: the struct says how large it is, and no more than that is written.
    check(unsafe { sys::hak_stats_get(&mut stats) })?;
    Ok(stats)
}

/// How statistics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As text, for people.
    Text,
    /// As one JSON object.
    Json,
    /// As OpenMetrics.
    OpenMetrics,
}

/// Writes the statistics of the process to a file, a pipe or a socket.
///
/// # Errors
///
/// EBUSY in a signal handler that interrupted the allocator; or what write(2) says.
pub fn print_stats(to: impl AsFd, format: Format) -> io::Result<()> {
    let format = match format {
        Format::Text => sys::HAK_STATS_TEXT,
        Format::Json => sys::HAK_STATS_JSON,
        Format::OpenMetrics => sys::HAK_STATS_OPENMETRICS,
    };
    // SAFETY: `to` stays open during the call.
    check(unsafe { sys::hak_stats_print(to.as_fd().as_raw_fd(), format) })
}

/// The effective value of an option, by the name of its environment variable; empty for a text that
/// is not set.
///
/// # Errors
///
/// ENOENT: there is no such option. InvalidInput: the name has a NUL in it.
pub fn option(name: &str) -> io::Result<String> {
    control(name, None)
}

/// Changes an option while the process runs, and returns the value from before.
///
/// # Errors
///
/// Nothing has changed then. ENOENT: there is no such option. EPERM: it is read when the process
/// starts. EINVAL: the value is not allowed. InvalidInput: one of the two has a NUL in it.
pub fn set_option(name: &str, value: &str) -> io::Result<String> {
    control(name, Some(value))
}

fn control(name: &str, value: Option<&str>) -> io::Result<String> {
    const ERANGE: c_int = 34; // the same on all of Linux: longer than the room for it
    let name = CString::new(name)?;
    let value = value.map(CString::new).transpose()?;
    let value_or_null = value.as_ref().map_or(ptr::null(), |text| text.as_ptr());
    let mut out = vec![0u8; 256];
    loop {
        // SAFETY: both texts end with a NUL, and `out` is as long as is said.
        let problem = unsafe {
            sys::hak_ctl(
                name.as_ptr(),
                value_or_null,
                out.as_mut_ptr().cast(),
                out.len(),
            )
        };
        match problem {
            0 => break,
            ERANGE => out.resize(2 * out.len(), 0),
            _ => return Err(io::Error::from_raw_os_error(problem)),
        }
    }
    let end = out.iter().position(|&byte| byte == 0).unwrap_or(out.len());
    Ok(String::from_utf8_lossy(&out[..end]).into_owned())
}

/// What a function says that returns 0, or -1 and errno.
fn check(status: c_int) -> io::Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
