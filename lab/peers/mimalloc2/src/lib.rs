#![no_std]

extern crate libmimalloc_sys;
extern crate no_panic;
