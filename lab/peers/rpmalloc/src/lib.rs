#![no_std]

extern crate no_panic;

// The crate's Rust half would bring the standard library with it.
#[link(name = "rpmalloc", kind = "static")]
extern "C" {}
