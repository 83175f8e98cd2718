//! A program that replaces some of C++'s operators, as a C++ library inside it may: the others come to these.
#![cfg(feature = "override")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn _Znam(bytes: usize) -> *mut c_void;
    fn _ZdaPv(block: *mut c_void);
}

static NEWS: AtomicUsize = AtomicUsize::new(0);
static DELETES: AtomicUsize = AtomicUsize::new(0);

#[no_mangle]
pub extern "C" fn _Znwm(bytes: usize) -> *mut c_void {
    NEWS.fetch_add(1, Ordering::Relaxed);
    unsafe { malloc(bytes) }
}

/// # Safety
/// The block is one that `_Znwm` returned.
#[no_mangle]
pub unsafe extern "C" fn _ZdlPv(block: *mut c_void) {
    DELETES.fetch_add(1, Ordering::Relaxed);
    free(block);
}

#[test]
fn what_the_program_has_replaced_is_called() {
    unsafe { _ZdaPv(_Znam(100)) };
    assert_eq!(NEWS.load(Ordering::Relaxed), 1);
    assert_eq!(DELETES.load(Ordering::Relaxed), 1);
    assert!(hakmem::serves_malloc());
}
