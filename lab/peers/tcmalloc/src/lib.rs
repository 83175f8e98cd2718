// With Rust's standard library: tcmalloc is C++ and needs the same run-time libraries anyway.
extern crate libtcmalloc_sys;
