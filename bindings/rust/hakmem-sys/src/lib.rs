#![doc = include_str!("../README.md")]
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_int, c_uint, c_void};

/// The band of blocks above 1 KiB, up to 32 KiB. Below it are C0 to C7: blocks of up to 8, 16, 32 ... 1024 bytes.
pub const HAK_BAND_MID: usize = 8;
/// The band of blocks up to 2 MiB, in multiples of 64 KiB.
pub const HAK_BAND_LARGE: usize = 9;
/// The band of all larger blocks, in multiples of 2 MiB.
pub const HAK_BAND_HUGE: usize = 10;
/// How many bands there are.
pub const HAK_STATS_BANDS: usize = 11;

/// What there is of one band: bytes but for `blocks`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct hak_stats_band_t {
    /// How many the program holds.
    pub blocks: u64,
    /// Bytes of these, each counted at its full block size.
    pub allocated: u64,
    /// Blocks ready in threads' magazines.
    pub magazines: u64,
    /// Blocks that are not free in their slab.
    pub active: u64,
    /// Blocks that are.
    pub free: u64,
    /// Of these, not yet collected by the thread that owns the slab.
    pub remote: u64,
    /// Slabs, and blocks that are none's.
    pub carved: u64,
}

/// Statistics: bytes, and counts since the process began. New fields come at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct hak_stats_t {
    /// In: the size of this struct; out: how much of it has been filled.
    pub size: u32,
    /// Of the meanings.
    pub version: u32,
    /// The bands of block sizes.
    pub bands: [hak_stats_band_t; HAK_STATS_BANDS],
    /// What the program holds, at full block sizes: the sum over the bands, as the next five are.
    pub allocated: u64,
    /// Blocks ready in threads' magazines.
    pub magazines: u64,
    /// Blocks that are not free in their slab.
    pub active: u64,
    /// Blocks that are.
    pub free: u64,
    /// Of these, not yet collected by the thread that owns the slab.
    pub remote: u64,
    /// Slabs, and blocks that are none's.
    pub carved: u64,
    /// Mapped for descriptors, thread records and the page map.
    pub metadata: u64,
    /// Freed address space kept for reuse.
    pub cached: u64,
    /// All address space.
    pub mapped: u64,
    /// Of that, what has memory, as the system says.
    pub resident: u64,
    /// Of that, what was given back, and not taken by the system yet.
    pub lazy: u64,
    /// Of the resident, what is on OS pages with nothing live, and not lazy.
    pub dirty: u64,
    /// Of the mapped, what has no memory.
    pub retained: u64,
    /// The most that was mapped.
    pub peak_mapped: u64,
    /// The most that was resident, of the whole process.
    pub peak_resident: u64,
    /// Ranges of address space taken from the system.
    pub region_maps: u64,
    /// Ranges of address space given back.
    pub region_unmaps: u64,
    /// Calls of mmap.
    pub maps: u64,
    /// Blocks mapped on their own because their thread could take no lock.
    pub single_maps: u64,
    /// Blocks of more than 2 MiB.
    pub huge_allocs: u64,
    /// Attempts at blocks of more than 2 MiB that failed.
    pub huge_failures: u64,
    /// Calls of madvise.
    pub madvise: u64,
    /// Advice refused with ENOMEM.
    pub madvise_enomem: u64,
    /// Advice refused otherwise.
    pub madvise_other: u64,
    /// Purges that gave memory back.
    pub purge_runs: u64,
    /// Calls of advice or unmapping made by purges.
    pub purge_calls: u64,
    /// Memory given back by purges, lazily or at once.
    pub purge_bytes: u64,
    /// Nanoseconds spent giving memory back.
    pub purge_ns: u64,
    /// Superslabs given back by purges.
    pub superslabs_retired: u64,
    /// Magazines filled from slabs.
    pub refills: u64,
    /// Blocks given back to slabs of other threads.
    pub remote_frees: u64,
    /// Slabs whose remote frees were collected.
    pub collects: u64,
    /// Slabs taken over from threads that have ended.
    pub adoptions: u64,
    /// Calls of munmap.
    pub munmap: u64,
    /// Calls of mremap.
    pub mremap: u64,
    /// Calls of mprotect.
    pub mprotect: u64,
    /// Calls of mincore.
    pub mincore: u64,
    /// Calls of futex.
    pub futex: u64,
    /// Calls of other kinds.
    pub other_calls: u64,
    /// All calls to the system.
    pub calls: u64,
    /// Sizes that were given a class of their own.
    pub classes_learned: u64,
    /// Memory handed out that had to be brought in first.
    pub touched: u64,
    /// Blocks given out between inaccessible pages.
    pub guard_fences: u64,
    /// Sampled blocks given out.
    pub guard_samples: u64,
    /// Lines about faults.
    pub faults: u64,
    /// The most that may be held; 0: no limit.
    pub limit: u64,
    /// What counts of that.
    pub held: u64,
    /// Allocations refused: out of memory, or beyond the limit.
    pub refused: u64,
}

/// How statistics are written.
pub type hak_stats_format_t = c_uint;
/// As text, for people.
pub const HAK_STATS_TEXT: hak_stats_format_t = 0;
/// As JSON.
pub const HAK_STATS_JSON: hak_stats_format_t = 1;
/// As OpenMetrics.
pub const HAK_STATS_OPENMETRICS: hak_stats_format_t = 2;

// What each promises and needs is said in hakmem/hakmem.h.
extern "C" {
    /// `n` bytes aligned to 16 (to 8 for `n` <= 8); null and ENOMEM when out of memory.
    pub fn hak_malloc(n: usize) -> *mut c_void;
    /// `count * size` bytes that read as zero; null and ENOMEM.
    pub fn hak_calloc(count: usize, size: usize) -> *mut c_void;
    /// Changes the size of a block, which may move; on failure null and ENOMEM, and the block is as it was.
    pub fn hak_realloc(p: *mut c_void, n: usize) -> *mut c_void;
    /// `n` bytes aligned to `align`, a power of two; null and ENOMEM, or EINVAL.
    pub fn hak_aligned_alloc(align: usize, n: usize) -> *mut c_void;
    /// Frees a block of any of these; null is allowed.
    pub fn hak_free(p: *mut c_void);
    /// Bytes that may be used at a block; 0 for null.
    pub fn hak_usable_size(p: *const c_void) -> usize;
    /// Bytes from any address to the end of its block; `usize::MAX` where that is not known.
    pub fn hak_room(p: *const c_void) -> usize;
    /// Reports an overflow, and ends the process, if `n` bytes from `p` on reach beyond the block.
    pub fn hak_check_range(p: *const c_void, n: usize);
    /// "MAJOR.MINOR.PATCH"; a constant.
    pub fn hak_version() -> *const c_char;
    /// 1 if this process's malloc is hakmem's, else 0.
    pub fn hak_is_serving() -> c_int;
    /// Gives back what is free. 1 if anything went.
    pub fn hak_trim() -> c_int;
    /// Calls `callback(wanted, context)` before an allocation is refused; `None`: nobody. 0, or -1 and ENOMEM.
    pub fn hak_limit_on_reached(
        callback: Option<unsafe extern "C" fn(usize, *mut c_void)>,
        context: *mut c_void,
    ) -> c_int;
    /// Reads an option, or changes it; 0 or an errno.
    pub fn hak_ctl(
        name: *const c_char,
        value: *const c_char,
        out: *mut c_char,
        out_bytes: usize,
    ) -> c_int;
    /// Writes all options as "text" or "json"; 0 or an errno.
    pub fn hak_options_print(fd: c_int, format: *const c_char) -> c_int;
    /// Fills the statistics, whose size the caller has set; 0, or -1 and errno.
    pub fn hak_stats_get(stats: *mut hak_stats_t) -> c_int;
    /// Writes the statistics; 0, or -1 and errno.
    pub fn hak_stats_print(fd: c_int, format: hak_stats_format_t) -> c_int;
    /// Writes a heap profile while HAKMEM_PROF is on; 0, or -1 and errno.
    pub fn hak_profile_write(fd: c_int) -> c_int;
}

/// What brings the library into a program that names this crate and calls nothing of it.
#[cfg(feature = "override")]
#[used]
static WHOLE: unsafe extern "C" fn(usize) -> *mut c_void = hak_malloc;
